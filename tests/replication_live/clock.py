"""One time for everything that a drill notes: milliseconds since it began."""

from __future__ import annotations

import time


class Clock:
    """Begins when it is made. Kafka's controller notes the time of day; `of_day` translates it.

    The two agree to a few milliseconds as long as nobody sets the machine's clock while the drill runs.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._began_of_day_ms = 1000 * time.time()

    def now(self) -> float:
        return round(1000 * (time.monotonic() - self._began), 1)

    def of_day(self, epoch_ms: float) -> float:
        """When that was, in milliseconds since the drill began."""
        return round(epoch_ms - self._began_of_day_ms, 1)

    def wait_until(self, at_ms: float) -> None:
        """For what is to happen at its time; returns at once if that is over."""
        time.sleep(max(0.0, at_ms - self.now()) / 1000)
