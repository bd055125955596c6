"""For how long a unit's records wait until they are passed: copied, or found to need no copy.

Told by looking at each partition's position and end a few times a second, not by the times that records carry,
which are their producers', and not by dividing the lag by a rate: the lag counts what needs no copy, of which an
edge may have nothing else, and a rate of 0 says nothing of a record that came a moment ago.

    lag, none before    remember the end; what is before it waits since the last look, or since this one if it is
                        the first
    end not reached     it waits on: whether slowly or not at all makes no difference
    end reached         that took so long, and so long it is said to take until the next end is reached
    no lag              nothing waits: 0
    lag not known       what is remembered stays

So a record that just came waits no longer than since the last look, a steady backlog has steady seconds, and one
that stands still has more each second. What waited before a unit's first look is told as if it had come then; what
is found to wait after a time in which nobody could look, as if it had come at its beginning.
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


class Waits:
    """Of one unit, whatever sessions it has."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._waiting: dict[Place, _Waiting] = {}

    def look(self, now: float, partitions: Iterable[tuple[Place, int | None, int]]) -> float:
        """Seconds that records wait, on the slowest of the partitions whose lag is known; each with its lag, None
        where that is not known, and its end. Partitions without a lag can be left out."""
        before = now if self._looked_at is None else self._looked_at
        self._looked_at = now
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
            # An end that falls is another log's.
            if one is None or end < one.end:
                one = _Waiting(end, before, 0.0)
            elif end - lag >= one.end:
                one = _Waiting(end, now, now - one.since)
            self._waiting[place] = one
            seconds = max(seconds, now - one.since, one.took)
        return seconds
