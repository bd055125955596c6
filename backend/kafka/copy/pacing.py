"""Pause of a session between a commit and its next transaction."""

from __future__ import annotations

import time

_SHORTEST_SECONDS = 0.004
_LONGEST_SECONDS = 0.02
_REFUSED_SECONDS = 0.02
"""Shortest time that librdkafka (2.16) waits before it retries."""
_GROWTH, _DECAY = 2.0, 0.97


class MarkerPause:
    """Estimate of the time in which the target writes a commit's markers, learnt from later calls.

    Until they are written the coordinator refuses the next transaction, and librdkafka retries only after 20 ms or
    more: a short wait is faster. How long markers take depends on the brokers and their load.
    """

    def __init__(self) -> None:
        self.seconds = _SHORTEST_SECONDS
        self._until = 0.0

    def begin(self) -> None:
        """Start the pause: a transaction was committed just now."""
        self._until = time.monotonic() + self.seconds

    def wait(self) -> None:
        """Wait for the rest of the pause: until then the next transaction would be refused."""
        left = self._until - time.monotonic()
        if left > 0:
            time.sleep(left)

    def note(self, took_seconds: float) -> None:
        """Adjust the pause by how long a transaction's first call to the coordinator took."""
        change = _GROWTH if took_seconds > _REFUSED_SECONDS else _DECAY
        self.seconds = min(max(self.seconds * change, _SHORTEST_SECONDS), _LONGEST_SECONDS)
