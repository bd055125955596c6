"""Finding the one record that a target refuses, among all that a failed transaction held.

A target refuses a transaction's records as a whole, so nobody knows which one it is. It lies among the offsets
that the failed transaction had read: those are its **suspects**. The next session reads the suspects alone, in
smaller transactions, until one fails again, and so on down to transactions of one record, which tell.

    50,000 records at once --refused--> 1,562 --refused--> 48 --refused--> 1: dead-lettered

What decides when the search is over is where the partitions have come, not how many messages were read: under load
new records and ends of partitions come in between, and must neither be searched nor use up the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from backend.kafka.copy.record_loop import Progress
from backend.kafka.copy.source import Place, Source

PARTS = 32
"""Into which the records of a refused transaction are cut."""
_STALLED_SECONDS = 10.0
"""After which suspects that cannot be read hold up the other partitions no more."""


@dataclass(frozen=True, kw_only=True)
class Suspects:
    """Where the refused record is, and how many records a transaction may hold that looks for it."""

    step: int
    until: Mapping[Place, int]
    """Place on the source -> the offset before which the record lies, if it lies there."""


def suspects_of(progress: Mapping[Place, Progress], step: int, before: Suspects | None) -> Suspects:
    """Return the suspects of a transaction that was refused: what it had read since the last commit.

    `step`: how many records it may have held. `before`: the suspects that it was looking among, if it was.
    """
    read = {
        place: each.source.position
        for place, each in progress.items()
        if each.dirty and each.source.position is not None
    }
    if before is not None:
        # What was read behind the old suspects is none: the record was there before.
        known = {place: min(at, before.until[place]) for place, at in read.items() if place in before.until}
        read = known or read
    return Suspects(step=max(1, step // PARTS), until=read)


class RefusedSearch:
    """One session's search: the suspects are read, every other partition waits; used by the session's thread."""

    def __init__(self, suspects: Suspects, source: Source) -> None:
        self.suspects = suspects
        self._source = source
        self._left = dict(suspects.until)
        self._waiting: set[Place] = set()
        self._reached: dict[Place, int | None] = {}
        self._moved_at = time.monotonic()

    @property
    def step(self) -> int:
        """Most records of one transaction."""
        return self.suspects.step

    def admit(self, progress: Mapping[Place, Progress]) -> None:
        """Have new partitions wait that hold no suspect. To be called before the source is given them."""
        for place, each in progress.items():
            if place not in self._left:
                each.source.parked_until = math.inf
                self._waiting.add(place)

    def forget(self, place: Place) -> None:
        """Search no more in a partition that is not copied any more."""
        self._left.pop(place, None)
        self._waiting.discard(place)

    def is_over(self, progress: Mapping[Place, Progress]) -> bool:
        """Whether all suspects were copied, or those left cannot be read now; then all partitions are read again.

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
                if one.source.parked_until is None:
                    self._source.hold(place)
                    self._waiting.add(place)
        stalled = time.monotonic() - self._moved_at > _STALLED_SECONDS
        if not stalled and not self._left.keys() <= self._source.troubles.keys():
            return False
        for place in self._waiting:
            self._source.release(place)
        return True
