"""Lag of a consumer group on one partition: in records, as rates, and as time.

Only what was observed is used: pairs of a time and an offset. The time lag is the time since the log's end passed
the committed offset, found by interpolation between two observations of the end, as Kafka Lag Exporter does.
Nothing is extrapolated, unlike there: where the committed offset lies before the oldest observation of the end,
only a lower bound is known.

Times are milliseconds since the epoch, by the clock of the process that observes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

WINDOW_MS = 60_000
"""Time over which rates are measured, at most; at least half of it, once that long has been observed."""
MOST_SAMPLES = 16
"""Observations kept of a log's end. Older ones are sparser, so that they reach back for hours."""


def lag_records(committed: int | None, end: int | None) -> int | None:
    """Return how many records wait; None if nothing was committed or the end is not known.

    An offset beyond the end, after the log was truncated or created anew, leaves nothing to read: 0.
    """
    return None if committed is None or end is None else max(0, end - committed)


class OffsetRate:
    """Rate at which an offset grows, over the last half to whole `WINDOW_MS`, or the last two observations."""

    __slots__ = ("_last", "_last_ms", "_newer", "_newer_ms", "_older", "_older_ms")

    def __init__(self, at_ms: int, offset: int) -> None:
        self._begin(at_ms, offset)

    def _begin(self, at_ms: int, offset: int) -> None:
        self._older_ms = self._newer_ms = self._last_ms = at_ms
        self._older = self._newer = self._last = offset

    def observe(self, at_ms: int, offset: int) -> float | None:
        """Return the rate per second up to this observation; None if the offset fell, or no time has passed.

        After an offset fell, because a group was reset or a log created anew, the rate begins anew.
        """
        if offset < self._last or at_ms <= self._last_ms:
            self._begin(at_ms, offset)
            return None
        self._last_ms, self._last = at_ms, offset
        found = 1000 * (offset - self._older) / (at_ms - self._older_ms)
        if at_ms - self._newer_ms >= WINDOW_MS // 2:
            self._older_ms, self._older = self._newer_ms, self._newer
            self._newer_ms, self._newer = at_ms, offset
        return found


@dataclass(frozen=True)
class TimeLag:
    """Time for which the oldest unread record has waited: interpolated, or a lower bound, or neither."""

    ms: int | None = None
    at_least_ms: int | None = None


class EndHistory:
    """Observations of a log's end, at most `MOST_SAMPLES`, the older the sparser."""

    __slots__ = ("_ends", "_rate", "_times", "rate")

    def __init__(self, at_ms: int, end: int) -> None:
        self._rate = OffsetRate(at_ms, end)
        self.rate: float | None = None
        """Rate at which records were written lately, per second; None: not known yet."""
        self._times, self._ends = array("q", [at_ms]), array("q", [end])

    def observe(self, at_ms: int, end: int) -> None:
        """Add an observation. One with a smaller end, of a log created anew, makes the older ones void."""
        self.rate = self._rate.observe(at_ms, end)
        times, ends = self._times, self._ends
        if end < ends[-1] or at_ms <= times[-1]:
            self._times, self._ends = array("q", [at_ms]), array("q", [end])
            return
        if len(ends) > 1 and ends[-2] == ends[-1] == end:
            # Only the first and the last time of an idle log's end matter.
            times[-1] = at_ms
            return
        times.append(at_ms)
        ends.append(end)
        if len(times) > MOST_SAMPLES:
            # The one whose neighbours are closest together, for its age; never the oldest or the newest.
            at = min(range(1, len(times) - 1), key=lambda i: (times[i + 1] - times[i - 1]) / (at_ms - times[i]))
            times.pop(at)
            ends.pop(at)

    def time_lag(self, committed: int, now_ms: int) -> TimeLag:
        """Return the time since the end passed the committed offset; 0 if nothing waits."""
        times, ends = self._times, self._ends
        if committed >= ends[-1]:
            return TimeLag(ms=0)
        # The record at the committed offset came between two observations: the last with an end not behind it, and
        # the next one.
        later = next(at for at, end in enumerate(ends) if end > committed)
        if later == 0:
            return TimeLag(at_least_ms=max(0, now_ms - times[0]))
        share = (committed - ends[later - 1]) / (ends[later] - ends[later - 1])
        passed_ms = times[later - 1] + share * (times[later] - times[later - 1])
        return TimeLag(ms=max(0, round(now_ms - passed_ms)))
