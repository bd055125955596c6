"""Re-rooting of the records of clusters that left the tree: they continue from the leaf that holds most of them.

It runs once the reachable leaves have entered the routes without the cluster, since only then its records no
longer move; and again when a leaf that was unreachable has entered, which may hold more
(`domain/distribution/rerooting.py`).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.domain.base.errors import DomainError
from backend.domain.distribution import rerooting
from backend.domain.distribution.lost_origin import Reroot
from backend.domain.records import origin
from backend.domain.records.origin import Vector
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups import positions
from backend.queries.base.observed import internal_topics
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.leaf_routes import LeafRow, known_origins, list_leaves, roots_of
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.tenants.streams import list_streams
from backend.settings import Settings
from workers import context

log = structlog.get_logger("rerooting")

ACTOR = "worker:rerooting"

Partition = tuple[str, int]
Names = dict[str, dict[str, str]]
"""Cluster -> topic -> stream."""


@dataclass(frozen=True)
class _Situation:
    """State that decides whether there is something to do."""

    lost: frozenset[int]
    leaves: Mapping[str, LeafRow]
    clusters: Mapping[str, ClusterRow]
    buckets: int
    """Number of tasks of each distributor."""

    @property
    def reachable(self) -> list[str]:
        return sorted(name for name in self.leaves if self.clusters[name].state != "offline")

    @property
    def settled(self) -> bool:
        return all(self.leaves[name].entered == self.leaves[name].wanted for name in self.reachable)

    @property
    def signature(self) -> object:
        return self.lost, tuple((name, self.leaves[name].entered) for name in self.reachable)


class Rerooting:
    """Re-rooting in one process; `tick` is called about once a second and never waits for a cluster."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._done: object = None
        self._thread: threading.Thread | None = None

    def tick(self) -> None:
        """Start if a cluster has left and the location of its records may have changed since the last run."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._engine.connect() as connection:
            situation = _situation(connection, self._settings)
            if not situation.lost or not situation.settled or situation.signature == self._done:
                return
            names = _names(connection)
            standing = roots_of(connection)
        self._thread = threading.Thread(
            target=self._reroot, args=(situation, names, standing), name="rerooting", daemon=True
        )
        self._thread.start()

    def _reroot(
        self, situation: _Situation, names: Names, standing: Mapping[Partition, Mapping[int, str]]
    ) -> None:
        try:
            held = {name: self._vectors(situation, name, names.get(name, {})) for name in situation.reachable}
            for number in sorted(situation.lost):
                present = {place: roots[number] for place, roots in standing.items() if number in roots}
                found = rerooting.roots(number, present, situation.leaves.keys(), held)
                if found:
                    command = Reroot(number=number, roots=found)
                    request_id = f"rerooting-{uuid.uuid4().hex[:12]}"
                    context.dispatch(deciders.LOST_ORIGIN, f"origin-{number}", command, ACTOR, request_id)
                    log.info("re-rooted", number=number, partitions=len(found))
            self._done = situation.signature
        except KafkaCallFailed as error:
            log.warning("re-rooting of lost origins failed; it will be retried", reason=error.reason)
        except DomainError as error:
            log.warning("re-rooting of lost origins failed; it will be retried", reason=error.detail)

    def _vectors(self, situation: _Situation, leaf: str, streams: Mapping[str, str]) -> dict[Partition, Vector]:
        row = situation.clusters[leaf]
        groups = [task.kafka_name for task in situation.leaves[leaf].tasks_ever(situation.buckets)]
        marks = positions.read_all(row.bootstrap_servers, row.properties, groups)
        return {
            (streams[topic], partition): origin.merge(mark.covered for mark in found)
            for (topic, partition), found in marks.items()
            if topic in streams
        }


def _situation(connection: Connection, settings: Settings) -> _Situation:
    clusters = {row.name: row for row in list_clusters(connection)}
    leaves = {name: row for name, row in list_leaves(connection).items() if name in clusters}
    lost = known_origins(connection) - {clusters[name].number for name in leaves}
    return _Situation(lost, leaves, clusters, partition_buckets(connection, settings))


def _names(connection: Connection) -> Names:
    found: Names = {}
    for row in list_streams(connection):
        for cluster, topic in row.technical_names.items():
            found.setdefault(cluster, {})[topic] = row.stream
    for seen in connection.execute(internal_topics.select()):
        found.setdefault(seen.cluster, {})[seen.topic] = seen.topic
    return found
