"""How fast a unit may copy: a token bucket over the bytes of its copies, judged by a clock that the caller reads.

The bucket holds one second's worth, so no burst is larger. A record's size is known only once it has been read:
how many to read next follows from the sizes of late, and what was too much is paid back by waiting. So the mean
holds whatever the sizes are, and a single record may be larger than the bucket.
"""

from __future__ import annotations

_BURST_SECONDS = 1.0
# Waiting for some of the bucket, not for its first byte, makes batches of it.
_LEAST_FILLED = 0.25
# Until sizes are known a few records are read, not many.
_FIRST_GUESS_BYTES = 65_536.0
_FORGET = 0.5
# A wait that a clock can tell from none.
_SHORTEST_WAIT_SECONDS = 0.001


class Throttle:
    """Of one unit; times are seconds of one monotonic clock."""

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._burst = bytes_per_second * _BURST_SECONDS
        self._tokens = self._burst
        self._at = now
        self._record_bytes = _FIRST_GUESS_BYTES

    def wait_seconds(self, now: float) -> float:
        """How long nothing may be read; 0 if something may be now."""
        self._refill(now)
        lacking = self._burst * _LEAST_FILLED - self._tokens
        return max(_SHORTEST_WAIT_SECONDS, lacking / self.bytes_per_second) if lacking > 0 else 0.0

    def most_records(self, now: float, most: int) -> int:
        """How many records to read at once, from 1 to `most`."""
        self._refill(now)
        return max(1, min(most, int(self._tokens / self._record_bytes)))

    def spend(self, now: float, records: int, copied_bytes: int) -> None:
        """Account for copies that were made."""
        self._refill(now)
        self._tokens -= copied_bytes
        if records:
            # Down slowly and up at once: too few records cost little, too many are a burst.
            self._record_bytes = max(1.0, copied_bytes / records, self._record_bytes * _FORGET)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self.bytes_per_second)
        self._at = now
