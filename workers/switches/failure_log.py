"""Logs the failures of retried work, without a line for each attempt."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

log = structlog.get_logger("switches")


class FailureLog:
    """Logs a failure when it differs from the last one, and once a minute while it persists.

    Used by one thread. `times` in each line counts the failures since the line before.
    """

    def __init__(self, every_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`every_seconds`: interval at which a persisting failure is logged; `clock` returns seconds."""
        self._every_seconds, self._clock = every_seconds, clock
        self._last: tuple[str, str, str] | None = None
        self._logged_at = 0.0
        self._unlogged = 0

    def failed(self, message: str, switch: str, reason: str) -> None:
        """Record one failure; log it unless the same was logged a moment ago."""
        failure, now = (message, switch, reason), self._clock()
        if failure == self._last:
            self._unlogged += 1
            if now - self._logged_at >= self._every_seconds:
                self._write()
            return
        if self._unlogged:
            self._write()  # the unlogged rest of the earlier failure
        self._last, self._unlogged = failure, 1
        self._write()

    def _write(self) -> None:
        assert self._last is not None
        message, switch, reason = self._last
        log.warning(message, switch=switch, reason=reason, times=self._unlogged)
        self._logged_at, self._unlogged = self._clock(), 0
