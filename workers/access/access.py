"""The reconcile loop for applications: observe a cluster, plan, execute, record; each cluster by itself.

Each cluster is polled in a thread of its own, so one that hangs delays nothing else. A poll is four requests,
whatever the number of applications; planning is `domain/access/access_steps.py`. Two processes that do the same at
the same time, because a lease moved, do no harm: both lead to the same state.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog
from sqlalchemy import Engine

from backend.domain.access.access_steps import Step, WantedAccess, access_steps, drifts, repeated_drifts
from backend.domain.access.acls import Acl
from backend.domain.base.errors import DomainError
from backend.kafka.admin.access import AccessAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.settings import Settings
from workers.access import access_recording, wanted_access
from workers.access.access_changes import Changes
from workers.one_thread import OneThread
from workers.topics import desired_topics

log = structlog.get_logger("access")

LOOK_SECONDS = 5.0
PRINCIPALS_AT_ONCE = 200
"""Most principals that one poll changes; the next poll, a second later, continues."""


class AccessReconciler:
    """One process's view of all clusters; `tick` is called about once a second and never waits for a cluster."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._position: int | None = None
        self._rows: list[ClusterRow] = []
        self._wanted: Mapping[str, Sequence[WantedAccess]] = {}
        self._clusters: dict[str, ClusterAccess] = {}

    def tick(self) -> None:
        """Begin a poll of each cluster that is due, unless one is running. Raises DomainError."""
        self._read()
        for row in self._rows:
            principals = self._wanted.get(row.name, ())
            if principals and row.state != "offline":
                self._cluster(row).begin_if_due(principals)

    def _read(self) -> None:
        with self._engine.connect() as connection:
            position = desired_topics.position(connection)
            if position == self._position:
                return
            self._rows = list_clusters(connection)
            self._wanted = wanted_access.read(connection)
        self._position = position

    def _cluster(self, row: ClusterRow) -> ClusterAccess:
        known = self._clusters.get(row.name)
        if known is None or not known.same(row):
            if known is not None:
                known.end()
            known = self._clusters[row.name] = ClusterAccess(row, self._engine, self._settings)
        return known


class ClusterAccess:
    """Access on one cluster, as this process knows it; polled by one thread at a time."""

    def __init__(self, row: ClusterRow, engine: Engine, settings: Settings) -> None:
        self._row = row
        self._engine = engine
        self._settings = settings
        self._admin: AccessAdmin | None = None
        self._thread = OneThread(f"access-{row.name}", self._close)
        self._last_look = float("-inf")
        self._looked_for: Sequence[WantedAccess] = ()
        self._work_left = True
        self._drifted: Mapping[str, tuple[str, ...]] = {}
        self._settled: dict[str, frozenset[Acl]] = {}
        self._undone: Mapping[str, str | None] = {}
        self._changes = Changes(row.name, engine, settings)

    def same(self, row: ClusterRow) -> bool:
        """Tell whether the cluster's connection is still the same."""
        return self._row.endpoint == row.endpoint

    def begin_if_due(self, principals: Sequence[WantedAccess]) -> None:
        """Begin a poll in a thread, unless one is running or nothing is new since the last one, just now."""
        waited = time.monotonic() - self._last_look > LOOK_SECONDS
        if waited or self._work_left or principals != self._looked_for:
            self._thread.begin(lambda: self._run(principals))

    def end(self) -> None:
        """Stop polling; a running poll ends by itself."""
        self._thread.end()

    def _run(self, principals: Sequence[WantedAccess]) -> None:
        self._last_look, self._looked_for, self._work_left = time.monotonic(), principals, False
        try:
            self._work_left = self._look(principals)
        except KafkaCallFailed as error:
            # The loop for topics reports offline clusters; without a poll nothing is concluded.
            log.warning("access not observed", cluster=self._row.name, reason=error.reason)
        except DomainError as error:
            log.warning("access not set; it will be planned again", cluster=self._row.name, reason=error.detail)

    def _look(self, principals: Sequence[WantedAccess]) -> bool:
        """Poll and act; return whether there is more to do at once."""
        if self._admin is None:
            row = self._row
            self._admin = AccessAdmin(row.bootstrap_servers, row.properties, self._settings.probe_timeout_seconds)
        due = [replace(each, settled=self._settled.get(each.principal)) for each in principals]
        seen = self._admin.observe([each.principal for each in due], self._row.kafka_cluster_id)
        planned = access_steps(due, self._changes.without_refused(seen))
        sure = repeated_drifts(planned, self._drifted)
        self._drifted = drifts(planned)
        # Principals that failed a moment ago come last, so that they do not delay others.
        sure.sort(key=lambda step: step.wanted.principal in self._undone)
        taken, left = _first_principals(sure, PRINCIPALS_AT_ONCE)
        self._undone = self._changes.carry_out(self._admin, taken)
        access_recording.record(taken, self._undone, request_id=f"access-{uuid.uuid4().hex[:12]}")
        done = {step.wanted.principal for step in taken} - self._undone.keys()
        self._settle(due, done | ({each.principal for each in due} - {step.wanted.principal for step in planned}))
        return bool(left or done or len(sure) < len(planned) or None in self._undone.values())

    def _settle(self, due: Sequence[WantedAccess], settled: set[str]) -> None:
        known = {each.principal: each.acls if each.principal in settled else each.settled for each in due}
        self._settled = {principal: acls for principal, acls in known.items() if acls is not None}

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def _first_principals(steps: Sequence[Step], most: int) -> tuple[list[Step], list[Step]]:
    """Return the steps of so many principals, and the rest."""
    principals = dict.fromkeys(step.wanted.principal for step in steps)
    first = set(list(principals)[:most])
    return (
        [step for step in steps if step.wanted.principal in first],
        [step for step in steps if step.wanted.principal not in first],
    )
