"""Deadlines of calls, with librdkafka's convention: a negative timeout has no end."""

from __future__ import annotations

import math
import time


class Deadline:
    """End of one call."""

    def __init__(self, timeout: float | None) -> None:
        """Set the end: `timeout` seconds from now; None or negative means never."""
        endless = timeout is None or timeout < 0
        self._end = math.inf if endless or timeout is None else time.monotonic() + timeout

    def left(self, most: float = -1) -> float:
        """Return the seconds left, at most `most` if that is not negative; -1 for a call without an end."""
        left = max(self._end - time.monotonic(), 0.0)
        if most >= 0:
            return min(left, most)
        return -1 if left == math.inf else left

    def over(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() >= self._end
