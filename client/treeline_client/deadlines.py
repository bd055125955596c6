"""How long a call may still take, in the way of librdkafka's binding: a negative time-out has no end."""

from __future__ import annotations

import math
import time


class Deadline:
    """The end of one call."""

    def __init__(self, timeout: float | None) -> None:
        """`timeout` in seconds; None or negative: never."""
        endless = timeout is None or timeout < 0
        self._end = math.inf if endless or timeout is None else time.monotonic() + timeout

    def left(self, most: float = -1) -> float:
        """Seconds left, at most so many if that is not negative; -1 for a call without an end."""
        left = max(self._end - time.monotonic(), 0.0)
        if most >= 0:
            return min(left, most)
        return -1 if left == math.inf else left

    def over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end
