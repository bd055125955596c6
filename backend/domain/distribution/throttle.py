"""Rate limit of a task: a token bucket over the bytes of its copies, on a clock that the caller reads.

The bucket holds one second's worth, so no burst is larger. A record's size is known only once it has been read:
the next batch is sized by recent records, and an excess is paid back by waiting. The mean rate holds whatever the
sizes are, and a single record may be larger than the bucket.
"""

from __future__ import annotations

_BURST_SECONDS = 1.0
# Waiting until part of the bucket is full, not for its first byte, gives batches.
_LEAST_FILLED = 0.25
# Until sizes are known, read only a few records.
_FIRST_GUESS_BYTES = 65_536.0
_FORGET = 0.5
# Shortest wait that a clock can measure.
_SHORTEST_WAIT_SECONDS = 0.001


class Throttle:
    """The rate limit of one task; times are seconds of one monotonic clock."""

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._burst = bytes_per_second * _BURST_SECONDS
        self._tokens = self._burst
        self._at = now
        self._record_bytes = _FIRST_GUESS_BYTES

    def wait_seconds(self, now: float) -> float:
        """Return the seconds to wait before the next read; 0 if reading may begin now."""
        self._refill(now)
        lacking = self._burst * _LEAST_FILLED - self._tokens
        return max(_SHORTEST_WAIT_SECONDS, lacking / self.bytes_per_second) if lacking > 0 else 0.0

    def most_records(self, now: float, most: int) -> int:
        """Return the number of records to read at once, from 1 to `most`."""
        self._refill(now)
        return max(1, min(most, int(self._tokens / self._record_bytes)))

    def spend(self, now: float, records: int, copied_bytes: int) -> None:
        """Account for the bytes of copies that were made."""
        self._refill(now)
        self._tokens -= copied_bytes
        if records:
            # The size estimate falls slowly and rises at once: too few records cost little, too many are a burst.
            self._record_bytes = max(1.0, copied_bytes / records, self._record_bytes * _FORGET)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self.bytes_per_second)
        self._at = now
