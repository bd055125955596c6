"""Barriers: bringing each leaf to the version of its routes that the tree requires.

Old and new edges into a leaf have different sources, so fencing one does not fence the other. For a new version
of its routes every transactional id that was ever allowed to copy to the leaf, and every one that will be, is
fenced on it; only then is the version recorded as entered, and only then does any task open a session there. One
procedure serves target switches, tree changes, new leaves, and leaves that were unreachable (decision 16).

A barrier that is repeated, by another process or after a kill, fences once more: sessions are opened again, and
nothing is lost.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.domain.base.errors import DomainError
from backend.domain.distribution.leaf import EnterRoutes
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.copy import fencing
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.leaf_routes import LeafRow, list_leaves, wanted_version
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.settings import Settings
from workers import context

log = structlog.get_logger("barrier")

ACTOR = "worker:barrier"


@dataclass(frozen=True)
class _Due:
    cluster: ClusterRow
    leaf: LeafRow
    buckets: int
    """Number of tasks of a distributor that may copy there once the barrier is passed."""


class Barriers:
    """The barriers of one process; `tick` is called about once a second and never waits for a cluster."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._lock = threading.Lock()
        self._running: set[str] = set()

    def tick(self) -> None:
        """Start the barrier of each leaf that is not at the required version, unless it is in progress."""
        with self._engine.connect() as connection:
            due = _due(connection, self._settings)
        for each in due:
            with self._lock:
                if each.cluster.name in self._running:
                    continue
                self._running.add(each.cluster.name)
            threading.Thread(
                target=self._pass, args=(each,), name=f"barrier-{each.cluster.name}", daemon=True
            ).start()

    def _pass(self, due: _Due) -> None:
        try:
            fenced = self._fence(due)
            self._record(due, fenced)
        except KafkaCallFailed as error:
            log.warning("barrier not passed; it will be retried", leaf=due.cluster.name, reason=error.reason)
        except DomainError as error:
            log.warning("barrier not recorded; it will be retried", leaf=due.cluster.name, reason=error.detail)
        finally:
            with self._lock:
                self._running.discard(due.cluster.name)

    def _fence(self, due: _Due) -> int:
        names = [task.kafka_name for task in due.leaf.tasks_ever(due.buckets)]
        row = due.cluster
        fencing.check_identity(row.bootstrap_servers, row.properties, row.kafka_cluster_id)
        with ThreadPoolExecutor(max_workers=fencing.AT_ONCE) as pool:
            for _ in pool.map(lambda name: fencing.fence(row.bootstrap_servers, row.properties, name), names):
                pass
        return len(names)

    def _record(self, due: _Due, fenced: int) -> None:
        name, version = due.cluster.name, due.leaf.wanted

        def build(connection: Connection) -> EnterRoutes:
            wanted = wanted_version(connection, name)
            # With the number of buckets that was fenced: if it has changed by now, the barrier starts over.
            return EnterRoutes(cluster=name, routes=version, wanted=wanted, fenced=fenced, buckets=due.buckets)

        context.dispatch(deciders.LEAF, f"leaf-{name}", build, ACTOR, f"barrier-{uuid.uuid4().hex[:12]}")
        log.info("leaf has entered its routes", leaf=name, version=version, fenced=fenced)


def _due(connection: Connection, settings: Settings) -> list[_Due]:
    """Return the reachable leaves that are not at the required version."""
    buckets = partition_buckets(connection, settings)
    rows = {row.name: row for row in list_clusters(connection)}
    return [
        _Due(rows[name], leaf, buckets)
        for name, leaf in list_leaves(connection).items()
        if not leaf.entered_as(buckets) and name in rows and rows[name].state != "offline"
    ]
