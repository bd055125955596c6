"""A distributor's task on its thread: keep one copy session open, follow the plan, report the state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import structlog

from backend.domain.base.errors import DomainError
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import EdgePlan
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.distribution.throttle import Throttle
from backend.kafka.base.errors import CopyFailed
from backend.kafka.base.liveness import LONGEST_STEP_SECONDS
from backend.kafka.copy.clients import CopyLimits
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.record_loop import CopyTotals
from backend.kafka.copy.refused_search import Suspects
from backend.kafka.copy.session import CopySession
from workers.distribution.task_states import TaskState

_WAIT_SECONDS = 0.5
_PERMISSION_SECONDS = 0.2
_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 5.0
_RATE_SECONDS = 2.0
_LAG_SECONDS = 0.25
_TROUBLES_SHOWN = 3

log = structlog.get_logger("distributor")


class DistributorThread(threading.Thread):
    """Thread that runs one task until it is stopped. The host assigns plans and reads the state."""

    def __init__(
        self,
        task: Task,
        epoch: int,
        limits: CopyLimits,
        why_not: Callable[[EdgePlan], str | None],
        control_plane: ControlPlane,
        plan: EdgePlan,
        position: int,
    ) -> None:
        """Create the thread.

        `why_not` returns why no session may be opened under a plan now (the lease is lost, the target has not
        entered the plan's routes), None if one may.
        """
        super().__init__(name=task.name, daemon=True)
        self.task = task
        self.epoch = epoch
        self._limits = limits
        self._why_not = why_not
        self._control_plane = control_plane
        self._checkpoints: list[tuple[str, int, Checkpoint]] = []
        # The task's thread adds while the host's thread takes: without the lock some would be taken twice.
        self._checkpoints_lock = threading.Lock()
        self._suspects: Suspects | None = None
        """Location of a record that the target refused, until it is found."""
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
        """Stop after the current transaction."""
        self._stopping.set()

    def take_measures(self) -> list[dict[str, Any]]:
        """Return the rows of `stream_measures` that changed since the last call."""
        return [
            {
                "unit": self.task.name,
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
            for each in self._control_plane.measures.take_changed()
        ]

    def take_checkpoints(self) -> list[tuple[str, int, Checkpoint]]:
        """Return the checkpoints of the source's log since the last call, to be stored."""
        with self._checkpoints_lock:
            taken, self._checkpoints = self._checkpoints, []
        return taken

    def _add_checkpoints(self, news: list[tuple[str, int, Checkpoint]]) -> None:
        with self._checkpoints_lock:
            self._checkpoints += news

    def checkpoints_written(self, streams: Collection[str]) -> None:
        """Note that the checkpoints taken of these streams are in the database."""
        self._control_plane.measures.checkpointed(streams)

    def hung(self) -> bool:
        """Return whether the task hangs in a call with a timeout: librdkafka is known to exceed its own."""
        return self.is_alive() and time.monotonic() > self._alive_until

    def _alive(self, within_seconds: float = LONGEST_STEP_SECONDS) -> None:
        self._alive_until = time.monotonic() + within_seconds

    def state(self, holder: str) -> TaskState:
        """Return the state of the task."""
        done = self._before + self._totals
        return TaskState(
            unit=self.task.name,
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
                if not self._wait_for_permission():
                    continue
                self._session()
                continue
            except CopyFailed as failure:
                self._failed(failure)
                # Fenced by a barrier, or by a new holder: the next check tells which, and does no harm.
                if failure.fenced or (failure.refused and self._suspects != suspects):
                    backoff = _PERMISSION_SECONDS
            except DomainError as error:
                # A secret that cannot be resolved, or the database unavailable while it is read.
                self._failed(CopyFailed(error.detail))
            except Exception as error:  # an unexpected failure of one task must not stop its neighbours
                log.exception("task failed", unit=self.task.name)
                self._failed(CopyFailed(f"{self.task.name}: {error!r}"))
            if time.monotonic() - opened > 2 * _LONGEST_BACKOFF_SECONDS:
                backoff = _FIRST_BACKOFF_SECONDS
            self._stopping.wait(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF_SECONDS)
        self._state = "stopped"

    def _wait_for_permission(self) -> bool:
        """Return whether a session may be opened; if not, set the reason and wait a moment."""
        reason = self._why_not(self._wish[0])
        if reason is None:
            return True
        self._state, self._reason, self._lag = "starting", reason, None
        self._stopping.wait(_PERMISSION_SECONDS)
        return False

    def _copy_or_idle(self, session: CopySession, plan: EdgePlan) -> None:
        """Copy one batch, as large as the limit allows; or idle, if nothing may be copied now."""
        throttle = self._throttle_of(plan)
        wait = throttle.wait_seconds(time.monotonic()) if throttle else 0.0
        if plan.paused or wait > 0:
            session.idle()
            # In short pieces, so that a new plan is noticed soon and the task is known to be alive.
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
        """Update the lag, but not after every batch: it is computed per partition."""
        now = time.monotonic()
        if self._lag is None or now - self._lag_noted_at > _LAG_SECONDS:
            self._lag, self._lag_noted_at = session.lag_records(), now

    def _wait_seconds(self) -> float | None:
        """Return the wait; unknown without a lag, since measures from before a failed session are outdated."""
        waits = self._control_plane.measures.wait_seconds
        return None if self._lag is None or waits is None else round(waits, 1)

    def _throttle_of(self, plan: EdgePlan) -> Throttle | None:
        """Return the task's throttle, kept from session to session while the limit is the same."""
        if plan.bytes_per_second is None:
            self._throttle = None
        elif self._throttle is None or self._throttle.bytes_per_second != plan.bytes_per_second:
            self._throttle = Throttle(plan.bytes_per_second, time.monotonic())
        return self._throttle

    def _report(self, plan: EdgePlan, troubles: list[str]) -> None:
        reason = "; ".join(troubles[:_TROUBLES_SHOWN]) or None
        if reason is not None and reason != self._reason:
            log.warning("partitions in trouble", unit=self.task.name, troubles=troubles)
        state = "paused" if plan.paused else "degraded" if troubles else "running"
        self._state, self._reason = state, reason

    def _failed(self, failure: CopyFailed) -> None:
        if self._reason != failure.detail:
            log.warning("session ended", unit=self.task.name, reason=failure.detail, fenced=failure.fenced)
        # A paused task is not blocked.
        state = "paused" if self._wish[0].paused else "blocked"
        self._state, self._reason, self._lag = state, failure.detail, None

    def _session(self) -> None:
        """Run one session, from opening until it fails, is stopped, or the plan needs another one."""
        plan, position = self._wish
        session = CopySession(plan, self._limits, self._alive, self._control_plane, self._suspects)
        try:
            session.open(lambda: self._why_not(plan) is None)
            self._carried_out = position
            self._totals = session.totals
            self._report(plan, [])
            while not self._stopping.is_set():
                wish, wished_position = self._wish
                # Not the position alone: internal topics appear without an event.
                if wish is not plan or wished_position != position:
                    if not wish.same_session(plan):
                        self._state = "starting"
                        return
                    self._lag = None  # the lag of new streams is unknown yet
                    session.update(wish.streams)
                    plan, position = wish, wished_position
                    self._carried_out = position
                self._copy_or_idle(session, plan)
                self._add_checkpoints(session.take_checkpoints())
                self._note_lag(session)
                self._unreadable = session.unreadable_flags()
                self._report(plan, sorted(session.troubles().values()))
        finally:
            self._suspects = session.suspects
            session.close()
            self._before, self._totals = self._before + session.totals, CopyTotals()


class _Rate:
    """Records per second, over at least the last two seconds."""

    def __init__(self) -> None:
        self._at, self._count, self._rate = time.monotonic(), 0, 0.0

    def of(self, count: int) -> float:
        """Return the rate, given the count of records so far."""
        passed = time.monotonic() - self._at
        if passed >= _RATE_SECONDS:
            self._rate = (count - self._count) / passed
            self._at, self._count = time.monotonic(), count
        return round(self._rate, 1)
