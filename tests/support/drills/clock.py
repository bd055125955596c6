"""One time base for everything that a drill records: milliseconds since it began."""

from __future__ import annotations

import time


class Clock:
    """A clock that starts when it is created. Kafka's controller records the time of day; `of_day` translates it.

    The two agree to a few milliseconds as long as the machine's clock is not set during the drill.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._began_of_day_ms = 1000 * time.time()

    def now(self) -> float:
        return round(1000 * (time.monotonic() - self._began), 1)

    def of_day(self, epoch_ms: float) -> float:
        """Convert a time of day to milliseconds since the drill began."""
        return round(epoch_ms - self._began_of_day_ms, 1)

    def wait_until(self, at_ms: float) -> None:
        """Wait until a time of the drill; return at once if it has passed."""
        time.sleep(max(0.0, at_ms - self.now()) / 1000)
