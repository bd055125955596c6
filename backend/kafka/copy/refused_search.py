"""Search for the one record that a target refuses, among all records of a failed transaction.

A target refuses a transaction's records as a whole, without naming the bad one. It lies among the offsets that the
failed transaction had read: those are its **suspects**. The next session reads only the suspects, in smaller
transactions, until one fails again, and so on down to transactions of one record, which identify it.

    50,000 records at once --refused--> 1,562 --refused--> 48 --refused--> 1: dead-lettered

The search ends by the positions of the partitions, not by the number of messages read: under load new records and
ends of partitions come in between, and must neither be searched nor use up the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from backend.kafka.copy.record_loop import Progress
from backend.kafka.copy.source import Place, Source

PARTS = 32
"""Number of parts into which the records of a refused transaction are divided."""
_STALLED_SECONDS = 10.0
"""Time after which unreadable suspects no longer block the other partitions."""


@dataclass(frozen=True, kw_only=True)
class Suspects:
    """Location of the refused record, and the number of records in one transaction of the search."""

    step: int
    until: Mapping[Place, int]
    """Place on the source -> offset before which the record lies, if it is in this partition."""


def suspects_of(progress: Mapping[Place, Progress], step: int, before: Suspects | None) -> Suspects:
    """Return the suspects of a refused transaction: what it had read since the last commit.

    `step`: the maximum number of its records. `before`: the suspects of the search that it was part of, if any.
    """
    read = {
        place: each.source.position
        for place, each in progress.items()
        if each.dirty and each.source.position is not None
    }
    if before is not None:
        # Records read after the old suspects are none: the refused record was there before.
        known = {place: min(at, before.until[place]) for place, at in read.items() if place in before.until}
        read = known or read
    return Suspects(step=max(1, step // PARTS), until=read)


class RefusedSearch:
    """The search of one session: it reads suspects while other partitions wait; used by the session's thread."""

    def __init__(self, suspects: Suspects, source: Source) -> None:
        self.suspects = suspects
        self._source = source
        self._left = dict(suspects.until)
        self._waiting: set[Place] = set()
        self._reached: dict[Place, int | None] = {}
        self._moved_at = time.monotonic()

    @property
    def step(self) -> int:
        """Return the maximum number of records of one transaction."""
        return self.suspects.step

    def admit(self, progress: Mapping[Place, Progress]) -> None:
        """Park new partitions that hold no suspect. Call it before they are given to the source."""
        for place, each in progress.items():
            if place not in self._left:
                each.source.parked_until = math.inf
                self._waiting.add(place)

    def forget(self, place: Place) -> None:
        """Drop a partition that is no longer copied from the search."""
        self._left.pop(place, None)
        self._waiting.discard(place)

    def is_over(self, progress: Mapping[Place, Progress]) -> bool:
        """Return whether all suspects were copied or the rest is unreadable now; if so, resume all partitions.

        Until then a partition that has passed its suspects waits for the others.
        """
        reached = {place: progress[place].source.position for place in self._left if place in progress}
        if reached != self._reached:
            self._reached, self._moved_at = reached, time.monotonic()
        for place, until in list(self._left.items()):
            one = progress.get(place)
            if one is None:
                del self._left[place]
            elif (one.source.position or 0) >= until:
                del self._left[place]
                if one.source.is_assigned:
                    self._source.hold(place)
                    self._waiting.add(place)
        stalled = time.monotonic() - self._moved_at > _STALLED_SECONDS
        if not stalled and not self._left.keys() <= self._source.troubles.keys():
            return False
        for place in self._waiting:
            self._source.release(place)
        return True
