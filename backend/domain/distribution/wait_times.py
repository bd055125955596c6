"""Time that a task's records wait until they are copied or found to need no copy.

The time is measured by polling each partition's position and end a few times a second. Record timestamps are the
producers' and prove nothing; lag divided by rate fails as well: the lag includes records that need no copy, which
may be all that an edge has, and a rate of 0 says nothing about a record that arrived a moment ago.

    lag, none before    remember the end; its records have waited since the last poll, or since this one if it
                        is the first
    end not reached     the wait continues, whether progress is slow or none
    end reached         the time since then is the wait, and is reported until the next end is reached
    no lag              nothing waits: 0
    lag unknown         what is remembered stays

A record that has just arrived waits no longer than since the last poll, a steady backlog has a steady wait, and a
stalled one grows every second. Records that waited before a task's first poll count as if they had arrived at that
poll; records found after a time without polls count as if they had arrived at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    end: int
    since: float
    took: float
    """Seconds that the end before this one took to be reached; 0 for the first."""


class WaitTimes:
    """Wait times of one task, across its sessions."""

    def __init__(self) -> None:
        self._observed_at: float | None = None
        self._waiting: dict[Place, _Waiting] = {}

    def observe(self, now: float, partitions: Iterable[tuple[Place, int | None, int]]) -> float:
        """Return the seconds that records wait on the slowest partition whose lag is known.

        `partitions`: place, lag (None if unknown) and end of each. Partitions without a lag can be left out.
        """
        before = now if self._observed_at is None else self._observed_at
        self._observed_at = now
        known, self._waiting = self._waiting, {}
        seconds = 0.0
        for place, lag, end in partitions:
            one = known.get(place)
            if lag is None:
                if one is not None:
                    self._waiting[place] = one
                continue
            if not lag:
                continue
            # An end that falls belongs to another log.
            if one is None or end < one.end:
                one = _Waiting(end, before, 0.0)
            elif end - lag >= one.end:
                one = _Waiting(end, now, now - one.since)
            self._waiting[place] = one
            seconds = max(seconds, now - one.since, one.took)
        return seconds
