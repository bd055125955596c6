"""Sampler of measures: stores the values of all series each minute, for charts, and deletes old samples.

It reads the database alone. A minute in which no worker samples stays without values. A sample takes more time
with more series, and so does the pause after it: it uses a fiftieth of a CPU at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.history.steps import MINUTE
from backend.domain.history.zone_bytes import Counts
from backend.queries.history import measure_writing
from backend.queries.history.measure_sources import read_current
from backend.settings import Settings
from workers.one_thread import OneThread

log = structlog.get_logger("history")

PAUSES = 50
"""Minimum interval between the starts of two samples, as a multiple of the CPU time of one."""
RETRY_SECONDS = 20.0
"""Pause after a failure: the minute may still be sampled."""


class MeasureSampler:
    """Sampler of one process; `tick` is called about once a second and never waits."""

    def __init__(self, engine: Engine, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._clock = engine, clock
        self._kept = measure_writing.Kept(
            minute_hours=settings.history_minute_hours,
            hours=settings.history_hours,
            most_series=settings.history_most_series,
        )
        self._thread = OneThread("measures")
        self._due = float("-inf")
        self._zone_counts: tuple[datetime, Counts] | None = None
        """Counters of the zone router's nodes at the last sample."""
        self._is_full = False

    def tick(self) -> None:
        """Start a sample in a thread once a minute, unless one is in progress."""
        if self._clock() >= self._due:
            self._thread.begin(self._run)

    @property
    def is_running(self) -> bool:
        """Return whether a sample is in progress."""
        return self._thread.is_working

    def _run(self) -> None:
        began, cpu_began = self._clock(), time.thread_time()
        seconds = RETRY_SECONDS
        try:
            seconds = self._sample()
        except DomainError as error:
            log.warning("measures not sampled", reason=error.detail)
        except Exception:
            log.exception("measures not sampled")
        finally:
            self._due = began + max(seconds, PAUSES * (time.thread_time() - cpu_began))

    def _sample(self) -> float:
        """Sample the minute that has begun; return the seconds until the next one begins."""
        with self._engine.begin() as connection:
            now = measure_writing.database_time(connection)
            at = now.replace(second=0, microsecond=0)
            seconds = (at - now).total_seconds() + MINUTE
            if not measure_writing.lock(connection) or measure_writing.is_sampled(connection, at):
                return seconds
            found = read_current(connection, self._counts_before(at))
            given = measure_writing.write_minute(connection, at, found.values, self._kept)
            measure_writing.write_ten_minutes(connection, at)
            measure_writing.delete_old(connection, at, self._kept)
        self._zone_counts = at, found.zone_counts
        self._report(given.left_out)
        return seconds

    def _counts_before(self, at: datetime) -> Counts | None:
        """Return the counters of the minute before; None after a pause."""
        # What was counted during a pause is not the bytes of one minute.
        if self._zone_counts is None or at - self._zone_counts[0] > timedelta(seconds=MINUTE):
            return None
        return self._zone_counts[1]

    def _report(self, left_out: int) -> None:
        if left_out and not self._is_full:
            log.warning(
                "history: too many series; the groups with the smallest lag are left out",
                left_out=left_out,
                most=self._kept.most_series,
            )
        self._is_full = left_out > 0
