"""A target of the schema distributor on its thread: one that is away, or refuses, delays no other."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from sqlalchemy import Engine

from backend import deciders
from backend.domain.base.errors import DomainError
from backend.domain.schemas.schema_conflicts import TOO_LARGE, Conflict, RecordConflicts
from backend.eventlog.recorded import Metadata
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas.schemas_topic import LIMIT_SECONDS
from backend.queries.schemas.schemas import WantedSchemas
from backend.registry.distribution import Difference
from backend.registry.mirror import Mirror
from workers import context
from workers.pauses import Pauses
from workers.schemas.following import Follower, NotThere
from workers.schemas.moving import ACTOR, move
from workers.schemas.states import BLOCKED, DEGRADED, RUNNING, TargetState

log = structlog.get_logger("schemas")

_FIRST_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_REST_SECONDS = 0.02
_REST_SHARE = 2
"""Rest per CPU time of all targets: however many schemas there are, they take a third of a core at most."""


class TargetThread(threading.Thread):
    """Brings one target up to the primary, each time one of the two has changed."""

    def __init__(
        self,
        engine: Engine,
        mirrors: Mapping[str, Mirror],
        target: str,
        wanted: WantedSchemas,
        changes: Callable[[], object],
    ) -> None:
        super().__init__(name=f"schemas:{target}", daemon=True)
        self.target, self.primary = target, wanted.primary
        self._engine, self._mirrors = engine, mirrors
        self._wanted = wanted
        # Changes whenever the result of a comparison may change.
        self._changes = changes
        self._follower = Follower(engine, mirrors, target, changes)
        self._pauses = Pauses[str](_FIRST_PAUSE_SECONDS)
        self._done: object = None
        self._recorded: frozenset[Conflict] | None = None
        self._ask_limit_at: float | None = None
        self._news = threading.Event()
        self._stopping = threading.Event()
        self.state = TargetState(cluster=target, primary_cluster=wanted.primary)

    def assign(self, wanted: WantedSchemas) -> None:
        """Set what to distribute from now on; the primary is the same."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._pauses.went_well(self.target)
            self.wake()

    def wake(self) -> None:
        """Compare at once."""
        self._news.set()

    def stop(self) -> None:
        """End after the present step."""
        self._stopping.set()
        self._news.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            began = time.thread_time()
            self._news.clear()
            if not self._pauses.waits(self.target):
                self._round()
            worked = (time.thread_time() - began) * (len(self._wanted.leaves) - 1)
            self._stopping.wait(max(_REST_SECONDS, _REST_SHARE * worked))
            self._news.wait(_LOOK_SECONDS)

    def _round(self) -> None:
        try:
            self._follow()
            self._pauses.went_well(self.target)
        except (KafkaCallFailed, DomainError) as error:
            self._pauses.failed(self.target)
            self._blocked(str(error))
        except Exception as error:
            # A bug must not end the thread: the target would stay as it is, unnoticed.
            log.exception("schemas cannot be distributed", cluster=self.target)
            self._pauses.failed(self.target)
            self._blocked(f"{type(error).__name__}, see the log of the worker")

    def _follow(self) -> None:
        wanted = self._wanted
        moving = wanted.move is not None and wanted.move.cluster == self.target
        taking_over = moving and wanted.move is not None and wanted.move.take_over
        target, primary = self._mirrors[self.target], self._mirrors[self.primary]
        if target.reason is not None:
            # The mirror retries, and wakes this thread.
            self._blocked(f"{self.target}: {target.reason}")
            return
        if not taking_over and not primary.ready:
            if primary.reason is not None:
                self._blocked(f"{self.primary}: {primary.reason}")
            return
        if not target.ready:
            return
        if moving:
            move(self._engine, self._mirrors, self._follower, wanted)
            return
        # Compared with an outdated primary, a conflict may be none: it is recorded once the primary is back.
        tells = primary.reason is None
        # No notification comes when a topic accepts larger records than before.
        asks = self._ask_limit_at is not None and time.monotonic() > self._ask_limit_at
        if asks or self._done != (wanted, self._changes(), tells):
            found = self._follower.look(wanted)
            self._note(found)
            if asks or found.records or (tells and self._recorded != frozenset(found.conflicts)):
                self._write(found, tells)
            self._done = (wanted, self._follower.seen, tells)

    def _write(self, seen: Difference, tells: bool) -> None:
        # Without anything to write or record, no topic is created.
        nothing = not seen.records and not seen.conflicts
        found = seen if nothing else self._follower.follow(self.primary)
        if found is None:
            return
        if tells:
            self._record(found.conflicts)
        self._note(found)
        # While others register schemas there may always be more; that is no reason for a pause.
        if found.records and found.records == seen.records:
            raise NotThere(f"{self.target}: {len(found.records)} records are still to be written")

    def _record(self, conflicts: tuple[Conflict, ...]) -> None:
        """Record one event for each conflict that is new or gone."""
        command = RecordConflicts(cluster=self.target, conflicts=conflicts)
        while context.dispatcher().execute(
            deciders.SCHEMA_CONFLICTS,
            f"schemas-{self.target}",
            command,
            metadata=Metadata(actor=ACTOR, request_id=f"schemas-{uuid.uuid4().hex[:12]}"),
            time=datetime.now(UTC),
            answer=lambda _, outcome: bool(outcome.events),
        ):
            pass
        self._recorded = frozenset(conflicts)

    def _note(self, found: Difference) -> None:
        conflicts = found.conflicts
        too_large = any(each.kind == TOO_LARGE for each in conflicts)
        if not too_large:
            self._ask_limit_at = None
        elif self._ask_limit_at is None or time.monotonic() > self._ask_limit_at:
            self._ask_limit_at = time.monotonic() + LIMIT_SECONDS
        self.state = TargetState(
            cluster=self.target,
            primary_cluster=self.primary,
            state=DEGRADED if conflicts else RUNNING,
            reason=conflicts[0].detail if conflicts else None,
            subjects=found.subjects,
            behind=len(found.records),
            conflicts=conflicts,
        )

    def _blocked(self, reason: str) -> None:
        self._done = None
        if (self.state.state, self.state.reason) != (BLOCKED, reason):
            log.warning("schemas not distributed", cluster=self.target, reason=reason)
        self.state = replace(self.state, state=BLOCKED, reason=reason)
