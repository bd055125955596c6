"""Execution of one placement, forward or back, step by step until nothing is left to move.

Each round reads the cluster and continues from there, so that a process that takes a run over, after a crash for
example, needs no more than the cluster and what is stored in `backend.queries.placement.placement_runs`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import structlog
from sqlalchemy import Engine

from backend import deciders
from backend.dispatch import Directed
from backend.domain.base.errors import DomainError
from backend.domain.placement.placement_runs import (
    RUNNING,
    EndRun,
    PlacementRunCommand,
    PlacementState,
    RefuseRun,
    RunLimits,
)
from backend.eventlog.recorded import Metadata
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.placement.errors import few
from backend.placement.execution.drift import drift
from backend.placement.execution.progress import progress, seconds_left
from backend.placement.execution.steps import (
    ClusterNow,
    Course,
    Limits,
    Place,
    Standing,
    name,
    next_steps,
    stand,
    to_cancel,
    to_elect,
)
from backend.queries.clusters.clusters import list_clusters
from backend.queries.placement import placement_runs
from backend.queries.placement.placements import PlacementRow, find_placement, read_documents
from workers import context
from workers.placement import step_inputs
from workers.placement.throttling import Throttling

log = structlog.get_logger("placements")

ACTOR = "worker:placements"
_PAUSE_SECONDS = 0.5
_REST_FACTOR = 2.0
"""Pause after a round as a multiple of its duration, so that large clusters are not read all the time."""
_RETRY_SECONDS = 10.0
_PACE_SECONDS = 60.0
"""Length of the window that determines the pace for the estimate of the time left."""
_NAMED = 100
_ELECTIONS = 5


class PlacementRunner:
    """The execution of one placement; used by one thread."""

    def __init__(self, engine: Engine, placement: str, is_mine: Callable[[str], bool]) -> None:
        self._engine, self._id, self._is_mine = engine, placement, is_mine
        self._topic_ids: Mapping[str, str] | None = None  # as they were when the first replica was moved
        self._throttling = Throttling(engine, placement)
        self._admin: ReplicaAdmin | None = None
        self._run = -1
        self._samples: deque[tuple[float, int]] = deque()
        self._last: Standing | None = None  # found finished by the round before
        self._elections = 0
        self._elected: set[Place] = set()

    @cached_property
    def _planned(self) -> step_inputs.Planned:
        with self._engine.connect() as connection:
            return step_inputs.read(read_documents(connection, self._id))

    def run(self) -> None:
        """Execute the placement until nothing is left to do or another process has its lease."""
        try:
            while True:
                began = time.monotonic()
                try:
                    if not self._is_mine(self._id) or self._round():
                        return
                except KafkaCallFailed as error:
                    self._failing(error.reason)
                except DomainError as error:
                    # The database may be unavailable; the cluster continues the requested reassignments.
                    log.warning("placement run waiting", placement=self._id, reason=error.detail)
                took = time.monotonic() - began
                time.sleep(max(_PAUSE_SECONDS, min(_REST_FACTOR * took, 30.0)))
        except Exception:
            log.exception("placement run failed; retrying", placement=self._id)
            time.sleep(_RETRY_SECONDS)
        finally:
            if self._admin is not None:
                self._admin.close()

    def _round(self) -> bool:
        """Read the cluster and request the next steps; return True if the run is over."""
        with self._engine.connect() as connection:
            row = find_placement(connection, self._id)
            if self._topic_ids is None:
                self._topic_ids = placement_runs.find_run_state(connection, self._id).topic_ids
        if row.state not in RUNNING:
            return True
        if row.run != self._run:
            self._run, self._last, self._elections = row.run, None, 0
            self._samples.clear()
            self._elected.clear()
        admin = self._connected(row.cluster)
        ongoing = admin.ongoing()
        seen = admin.read(whole=False)
        now = step_inputs.as_now(seen, ongoing, self._topic_ids or {})
        if self._topic_ids is None and row.state is not PlacementState.CANCELLING:
            planned = self._planned.planned_from
            reasons = drift(planned, now.replicas, now.brokers, ongoing)
            if reasons:
                why = f"{row.cluster} has changed since the plan was made: {'; '.join(reasons)}; create a new plan"
                self._record(RefuseRun(run=row.run, reason=why))
                return True
            topics = {topic for topic, _ in self._planned.forth.targets}
            with self._engine.begin() as connection:
                ids = {topic: seen.topic_ids[topic] for topic in topics}
                placement_runs.store_topic_ids(connection, self._id, ids)
            self._topic_ids = ids
        return self._step(row, admin, now)

    def _step(self, row: PlacementRow, admin: ReplicaAdmin, now: ClusterNow) -> bool:
        is_back = row.state is PlacementState.ROLLING_BACK
        course = self._planned.back if is_back else self._planned.forth
        limits = row.limits or RunLimits()
        standing = stand(course, now)
        refused: dict[Place, str] = {}
        waiting: dict[Place, str] = {}
        if row.state is PlacementState.CANCELLING:
            refused = admin.alter(to_cancel(course, now, standing))
            finished = not standing.moving
        else:
            if limits.bytes_per_second is None or standing.is_finished:
                self._throttling.remove(admin)
            else:
                self._throttling.keep(admin, limits.bytes_per_second, course)
            if row.state is not PlacementState.PAUSED:
                astray = to_cancel(course, now, standing, only_wrong_way=True)
                steps = next_steps(course, now, _as_limits(limits), standing)
                waiting = steps.waiting
                refused = admin.alter({**steps.ask, **astray})
            finished = standing.is_finished and row.state is not PlacementState.PAUSED
        self._store_progress(course, standing, admin, refused, waiting)
        # Brokers learn of a completed move one after another, so a single observation may be stale.
        over, self._last = finished and self._last == standing, standing if finished else None
        if not over:
            return False
        if row.state is not PlacementState.CANCELLING and not self._is_led(to_elect(course, now, standing), admin):
            return False
        if not self._throttling.remove(admin):
            return False
        self._record(EndRun(run=row.run, after=row.state, report=self._report(course, now, standing)))
        return False  # another round follows, since an operator may have changed the state meanwhile

    def _is_led(self, wanted: list[Place], admin: ReplicaAdmin) -> bool:
        """Return True once the preferred brokers lead, or elections have failed too often."""
        if not wanted or self._elections == _ELECTIONS:
            return True
        self._elections += 1
        refused = admin.elect_preferred(wanted)
        self._elected |= set(wanted) - refused.keys()
        self._last = None
        return False

    def _report(self, course: Course, now: ClusterNow, standing: Standing) -> dict[str, Any]:
        # A course covers only the partitions that move.
        stays = self._planned.planned_from.replicas
        lists = {
            "gone": standing.gone,
            "changed_by_others": sorted(standing.changed_by_others),
            "grown": [each for each in standing.grown if each not in stays],
            "not_led": to_elect(course, now, standing),
        }
        return {
            "partitions": len(course.targets),
            "arrived": len(standing.arrived),
            "elected": len(self._elected),
            **{
                what: {"count": len(places), "examples": [name(each) for each in places[:_NAMED]]}
                for what, places in lists.items()
            },
        }

    def _store_progress(
        self,
        course: Course,
        standing: Standing,
        admin: ReplicaAdmin,
        refused: dict[Place, str],
        waiting: dict[Place, str],
    ) -> None:
        adding = {place: flight.adding for place, flight in standing.moving.items() if flight.adding}
        found = progress(course, standing, self._planned.sizes, admin.copied(adding) if adding else {})
        clock = time.monotonic()
        self._samples.append((clock, found.bytes_done))
        while self._samples[0][0] < clock - _PACE_SECONDS:
            self._samples.popleft()
        held_up = {**waiting, **refused}
        progress_document = {
            **vars(found),
            "seconds_left": seconds_left(list(self._samples), found.bytes_left, is_finished=found.is_finished),
            "changed_by_others": [name(each) for each in sorted(standing.changed_by_others)[:_NAMED]],
            "gone": [name(each) for each in standing.gone[:_NAMED]],
            "held_up": {name(each): why for each, why in sorted(held_up.items())[:_NAMED]},
            "throttle_refused": self._throttling.refused,
            "failing": None,
        }
        with self._engine.begin() as connection:
            placement_runs.store_progress(connection, self._id, progress_document)

    def _failing(self, reason: str) -> None:
        log.warning("placement run waiting", placement=self._id, reason=reason)
        try:
            with self._engine.begin() as connection:
                progress_document = placement_runs.find_progress(connection, self._id) or {}
                placement_runs.store_progress(connection, self._id, {**progress_document, "failing": reason})
        except DomainError as error:
            log.warning("placement run waiting", placement=self._id, reason=error.detail)

    def _connected(self, cluster: str) -> ReplicaAdmin:
        if self._admin is None:
            with self._engine.connect() as connection:
                row = next((each for each in list_clusters(connection) if each.name == cluster), None)
            if row is None:
                raise KafkaCallFailed(f"cluster {few([cluster])} no longer exists")
            self._admin = ReplicaAdmin(row.name, row.bootstrap_servers, row.properties)
        return self._admin

    def _record(self, command: PlacementRunCommand) -> None:
        metadata = Metadata(actor=ACTOR, request_id=self._id)
        context.dispatch_all(lambda _: [Directed(deciders.PLACEMENT, f"placement-{self._id}", command, metadata)])


def _as_limits(limits: RunLimits) -> Limits:
    return Limits(moves_per_broker=limits.moves_per_broker, partitions_at_once=limits.partitions_at_once)
