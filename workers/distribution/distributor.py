"""A distributor unit on its thread: keep one copy session open, follow the plan, tell how it goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import structlog

from backend.domain.base.errors import DomainError
from backend.domain.distribution.assignment import Unit
from backend.domain.distribution.edges import EdgePlan
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.distribution.throttle import Throttle
from backend.kafka.base.alive import LONGEST_STEP_SECONDS
from backend.kafka.base.errors import CopyFailed
from backend.kafka.copy.clients import CopyLimits
from backend.kafka.copy.knowledge import Knowledge
from backend.kafka.copy.record_loop import CopyTotals
from backend.kafka.copy.refused_search import Suspects
from backend.kafka.copy.session import CopySession
from workers.distribution.unit_states import UnitState

_WAIT_SECONDS = 0.5
_LEAVE_SECONDS = 0.2
_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 5.0
_RATE_SECONDS = 2.0
_LAG_SECONDS = 0.25
_TROUBLES_SHOWN = 3

log = structlog.get_logger("distributor")


class DistributorThread(threading.Thread):
    """Runs one unit until it is stopped. The host assigns plans and reads the state."""

    def __init__(
        self,
        unit: Unit,
        epoch: int,
        limits: CopyLimits,
        why_not: Callable[[EdgePlan], str | None],
        knowledge: Knowledge,
        plan: EdgePlan,
        position: int,
    ) -> None:
        """`why_not` tells why no session may be opened under a plan now (the lease is gone, the target has not
        entered the plan's routes), None if one may."""
        super().__init__(name=unit.name, daemon=True)
        self.unit = unit
        self.epoch = epoch
        self._limits = limits
        self._why_not = why_not
        self._knowledge = knowledge
        self._checkpoints: list[tuple[str, int, Checkpoint]] = []
        # The unit's thread adds while the host's takes: without it some would be taken twice.
        self._checkpoints_lock = threading.Lock()
        self._suspects: Suspects | None = None
        """Where a record is that the target refused, until it is found."""
        self._wish = (plan, position)
        self._carried_out = 0
        self._stopping = threading.Event()
        self._alive_until = time.monotonic() + LONGEST_STEP_SECONDS
        self._state = "starting"
        self._reason: str | None = None
        self._lag: int | None = None
        self._lag_noted_at = 0.0
        self._unreadable = 0
        self._totals = CopyTotals()
        self._before = CopyTotals()
        self._rate = _Rate()
        self._throttle: Throttle | None = None

    def assign(self, plan: EdgePlan, position: int) -> None:
        """Follow this plan from now on."""
        self._wish = (plan, position)

    def stop(self) -> None:
        """Let go after the transaction at hand."""
        self._stopping.set()

    def take_measures(self) -> list[dict[str, Any]]:
        """Rows of `stream_measures` in which something is new since the last call."""
        return [
            {
                "unit": self.unit.name,
                "epoch": self.epoch,
                "stream": each.stream,
                "records": each.records,
                "bytes": each.size,
                "passed": each.passed,
                "lag_records": each.lag_records,
                "newest_ms": each.newest_ms,
                "copied_ms": each.copied_ms,
                "latency_ms": each.latency_ms,
                "checkpoint_ms": each.checkpoint_ms,
            }
            for each in self._knowledge.measures.take_changed()
        ]

    def take_checkpoints(self) -> list[tuple[str, int, Checkpoint]]:
        """Checkpoints of the source's log since the last call, to be written down."""
        with self._checkpoints_lock:
            taken, self._checkpoints = self._checkpoints, []
        return taken

    def _add_checkpoints(self, news: list[tuple[str, int, Checkpoint]]) -> None:
        with self._checkpoints_lock:
            self._checkpoints += news

    def checkpoints_written(self, streams: Collection[str]) -> None:
        """Those that were taken of these streams are in the database."""
        self._knowledge.measures.checkpointed(streams)

    def hung(self) -> bool:
        """Whether the unit hangs in a call that promised to end: librdkafka's have been seen to break it."""
        return self.is_alive() and time.monotonic() > self._alive_until

    def _alive(self, within_seconds: float = LONGEST_STEP_SECONDS) -> None:
        self._alive_until = time.monotonic() + within_seconds

    def state(self, holder: str) -> UnitState:
        """How the unit is doing."""
        done = self._before + self._totals
        return UnitState(
            unit=self.unit.name,
            holder=holder,
            epoch=self.epoch,
            state=self._state,
            reason=self._reason,
            target=self._wish[0].target.name,
            lag_records=self._lag,
            wait_seconds=self._wait_seconds(),
            records_per_second=self._rate.of(done.copied_records),
            copied_records=done.copied_records,
            copied_bytes=done.copied_bytes,
            unreadable_flags=self._unreadable,
            schema_holds=done.schema_holds,
            schema_held_seconds=round(done.schema_held_seconds, 3),
            schema_waits_run_out=done.schema_waits_run_out,
            position=self._carried_out,
        )

    def run(self) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            self._alive()
            opened, suspects = time.monotonic(), self._suspects
            try:
                if not self._wait_for_leave():
                    continue
                self._session()
                continue
            except CopyFailed as failure:
                self._failed(failure)
                # Fenced by a barrier, or by a new holder: asking again tells which, and does no harm.
                if failure.fenced or (failure.refused and self._suspects != suspects):
                    backoff = _LEAVE_SECONDS
            except DomainError as error:
                # A secret that cannot be resolved, or the database gone while it is asked.
                self._failed(CopyFailed(error.detail))
            except Exception as error:  # one unit's surprise must not stop its neighbours
                log.exception("unit failed", unit=self.unit.name)
                self._failed(CopyFailed(f"{self.unit.name}: {error!r}"))
            if time.monotonic() - opened > 2 * _LONGEST_BACKOFF_SECONDS:
                backoff = _FIRST_BACKOFF_SECONDS
            self._stopping.wait(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF_SECONDS)
        self._state = "stopped"

    def _wait_for_leave(self) -> bool:
        """Whether a session may be opened; if not, the reason is told and a moment has passed."""
        reason = self._why_not(self._wish[0])
        if reason is None:
            return True
        self._state, self._reason, self._lag = "starting", reason, None
        self._stopping.wait(_LEAVE_SECONDS)
        return False

    def _copy_or_rest(self, session: CopySession, plan: EdgePlan) -> None:
        """One batch, as large as the limit allows; or some rest, if nothing may be copied now."""
        throttle = self._throttle_of(plan)
        wait = throttle.wait_seconds(time.monotonic()) if throttle else 0.0
        if plan.paused or wait > 0:
            session.rest()
            # In short pieces, so that a new plan is seen soon and the unit is known to be alive.
            self._stopping.wait(_WAIT_SECONDS if plan.paused else min(wait, _WAIT_SECONDS))
            return
        if throttle is None:
            session.copy_batch(_WAIT_SECONDS)
            return
        records, copied_bytes = session.totals.copied_records, session.totals.copied_bytes
        session.copy_batch(_WAIT_SECONDS, throttle.most_records(time.monotonic(), self._limits.batch_records))
        copied = session.totals.copied_records - records
        throttle.spend(time.monotonic(), copied, session.totals.copied_bytes - copied_bytes)

    def _note_lag(self, session: CopySession) -> None:
        """Not after every batch: it is asked of each partition."""
        now = time.monotonic()
        if self._lag is None or now - self._lag_noted_at > _LAG_SECONDS:
            self._lag, self._lag_noted_at = session.lag_records(), now

    def _wait_seconds(self) -> float | None:
        """Known with the lag: what was measured before a session failed says nothing of now."""
        waits = self._knowledge.measures.wait_seconds
        return None if self._lag is None or waits is None else round(waits, 1)

    def _throttle_of(self, plan: EdgePlan) -> Throttle | None:
        """The unit's own, kept from session to session as long as the limit is the same."""
        if plan.bytes_per_second is None:
            self._throttle = None
        elif self._throttle is None or self._throttle.bytes_per_second != plan.bytes_per_second:
            self._throttle = Throttle(plan.bytes_per_second, time.monotonic())
        return self._throttle

    def _tell(self, plan: EdgePlan, troubles: list[str]) -> None:
        reason = "; ".join(troubles[:_TROUBLES_SHOWN]) or None
        if reason is not None and reason != self._reason:
            log.warning("partitions in trouble", unit=self.unit.name, troubles=troubles)
        state = "paused" if plan.paused else "degraded" if troubles else "running"
        self._state, self._reason = state, reason

    def _failed(self, failure: CopyFailed) -> None:
        if self._reason != failure.detail:
            log.warning("session ended", unit=self.unit.name, reason=failure.detail, fenced=failure.fenced)
        # One that is told to wait is not held up by anything.
        state = "paused" if self._wish[0].paused else "blocked"
        self._state, self._reason, self._lag = state, failure.detail, None

    def _session(self) -> None:
        """One session, from opening until it fails, is stopped, or the plan needs another one."""
        plan, position = self._wish
        session = CopySession(plan, self._limits, self._alive, self._knowledge, self._suspects)
        try:
            session.open(lambda: self._why_not(plan) is None)
            self._carried_out = position
            self._totals = session.totals
            self._tell(plan, [])
            while not self._stopping.is_set():
                wish, wished_position = self._wish
                # Not the position alone: internal topics come without an event.
                if wish is not plan or wished_position != position:
                    if not wish.same_session(plan):
                        self._state = "starting"
                        return
                    self._lag = None  # of the new streams nothing is known yet
                    session.update(wish.streams)
                    plan, position = wish, wished_position
                    self._carried_out = position
                self._copy_or_rest(session, plan)
                self._add_checkpoints(session.take_checkpoints())
                self._note_lag(session)
                self._unreadable = session.unreadable_flags()
                self._tell(plan, sorted(session.troubles().values()))
        finally:
            self._suspects = session.suspects
            session.close()
            self._before, self._totals = self._before + session.totals, CopyTotals()


class _Rate:
    """Records per second, over at least the last two seconds."""

    def __init__(self) -> None:
        self._at, self._count, self._rate = time.monotonic(), 0, 0.0

    def of(self, count: int) -> float:
        """The rate, given the count of records up to now."""
        passed = time.monotonic() - self._at
        if passed >= _RATE_SECONDS:
            self._rate = (count - self._count) / passed
            self._at, self._count = time.monotonic(), count
        return round(self._rate, 1)
