"""Sparklines that several viewers of a table share: read again at most twice a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from sqlalchemy import URL, Connection

from backend.web.history.measure_charts import read_sparklines
from backend.web.history.sparkline import Sparkline

AGAIN_SECONDS = 30.0
"""Seconds between two reads of a sparkline: there are new values once a minute, and pages poll more often."""
MOST_KEPT = 5_000


class RecentSparklines:
    """Sparklines of one metric, read lately. It knows no rights: callers ask for what their viewer may see."""

    def __init__(self, metric: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._metric, self._clock = metric, clock
        self._kept: dict[tuple[URL, str], tuple[float, Sparkline | None]] = {}
        self._lock = threading.Lock()

    def read(self, connection: Connection, subjects: Collection[str]) -> Mapping[str, Sparkline | None]:
        """Return the sparkline of each subject; None: it has no values."""
        now, where = self._clock(), connection.engine.url
        with self._lock:
            kept = {each: self._kept[where, each] for each in subjects if (where, each) in self._kept}
        found = {each: line for each, (at, line) in kept.items() if now - at < AGAIN_SECONDS}
        if missing := [each for each in subjects if each not in found]:
            read = read_sparklines(connection, self._metric, missing)
            found |= read
            self._keep(now, {(where, each): line for each, line in read.items()})
        return found

    def _keep(self, now: float, read: Mapping[tuple[URL, str], Sparkline | None]) -> None:
        with self._lock:
            self._kept |= {each: (now, line) for each, line in read.items()}
            if len(self._kept) > MOST_KEPT:
                newest = sorted(self._kept.items(), key=lambda each: each[1][0])[-MOST_KEPT // 2 :]
                self._kept = dict(newest)
