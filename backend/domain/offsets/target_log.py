"""Index of one log on a target, used by the offset committer to find the first record that a group has not read.

Records of an origin lie in every log in the order of their offsets at the origin. So two ascending columns per
origin are enough: the offsets here, and the offsets at the origin. A binary search finds an origin's first record
beyond a vector.
"""

from __future__ import annotations

import bisect
from array import array
from dataclasses import dataclass, field

from backend.domain.records.incarnations import FIRST_INCARNATION
from backend.domain.records.origin import Vector

Reached = tuple[int, int]
_NOTHING = (-1, -1)
_MOST = 2**62
"""Upper limit of a re-read bound: it must fit into 64 bits whatever others wrote into the map."""


@dataclass(slots=True)
class _Track:
    """Records of one origin: offsets in this log (`places`); incarnations and offsets at the origin."""

    places: array[int] = field(default_factory=lambda: array("q"))
    incarnations: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Reached:
        return self.incarnations[index], self.offsets[index]


class TargetLog:
    """Records from offset `first` on, which follow the vector `seen`; scanning resumes at `end`."""

    def __init__(self, first: int, seen: Vector) -> None:
        self.first = self.end = first
        self._before = dict(seen)
        self._tracks: dict[int, _Track] = {}
        self._unknown: array[int] = array("q")
        self._replayed: array[int] = array("q")

    def add(self, place: int, origin: int | None, reached: Reached | None) -> None:
        """Add the next record; `origin` is None for a record with copy flags but no origin.

        No vector covers a record without an origin, so it cannot be known which groups have read it.
        """
        self.end = place + 1
        if origin is None or reached is None:
            self._unknown.append(place)
            return
        track = self._tracks.setdefault(origin, _Track())
        if reached > (track[len(track) - 1] if len(track) else self._before.get(origin, _NOTHING)):
            track.places.append(place)
            track.incarnations.append(reached[0])
            track.offsets.append(reached[1])
        else:
            # A replayed dead letter follows records of later origin offsets: it counts as covered when they do.
            self._replayed.append(place)

    def scanned_to(self, end: int) -> None:
        """Move `end` forward: no record lies between the last one and `end`."""
        self.end = max(self.end, end)

    @property
    def size(self) -> int:
        """Return the number of records held."""
        return len(self._unknown) + len(self._replayed) + sum(len(track) for track in self._tracks.values())

    def knows_all_from(self, place: int) -> bool:
        """Tell whether all records at or after an offset have an origin."""
        return not self._unknown or self._unknown[-1] < place

    def reaches_back_to(self, vector: Vector) -> bool:
        """Tell whether the vector covers everything before `first`; the first uncovered record then follows."""
        return all(reached <= vector.get(origin, _NOTHING) for origin, reached in self._before.items())

    def first_uncovered(self, vector: Vector) -> int:
        """Return the offset of the first record that the vector does not cover; `end` if it covers all."""
        places = [self.end, *self._unknown[:1]]
        for origin, track in self._tracks.items():
            index = bisect.bisect_right(track, vector.get(origin, _NOTHING))
            if index < len(track):
                places.append(track.places[index])
        return min(places)

    def seen_at(self, place: int) -> Vector:
        """Return the vector of the records before an offset; the offset must be at or after `first`."""
        seen = dict(self._before)
        for origin, track in self._tracks.items():
            index = bisect.bisect_left(track.places, place)
            if index:
                seen[origin] = track[index - 1]
        return seen

    def covered_behind(self, place: int, vector: Vector) -> int:
        """Return an upper bound of the records at or after an offset that the vector covers."""
        count = len(self._replayed) - bisect.bisect_left(self._replayed, place)
        for origin, track in self._tracks.items():
            covered = bisect.bisect_right(track, vector.get(origin, _NOTHING))
            count += max(0, covered - bisect.bisect_left(track.places, place))
        return count

    def forget_before(self, place: int) -> None:
        """Drop the records before an offset."""
        self._before = self.seen_at(place)
        for track in self._tracks.values():
            index = bisect.bisect_left(track.places, place)
            del track.places[:index], track.incarnations[:index], track.offsets[:index]
        for places in (self._unknown, self._replayed):
            del places[: bisect.bisect_left(places, place)]
        self.first = max(self.first, min(place, self.end))


@dataclass(frozen=True, kw_only=True)
class ChosenOffset:
    """Offset from which a group is to continue."""

    offset: int
    re_read_bound: int | None
    """Most records that the group reads again. None: unknown, because an origin's topic was re-created between the
    records here and those read, because records carry no origin, or because what the group has read was deleted
    where it committed."""
    settled: bool
    """Tells whether the target has all that the group has read; if not, the offset rises as the rest arrives."""


def exact(vector: Vector, read: Vector, log: TargetLog, low: int = 0, *, whole: bool = True) -> ChosenOffset:
    """Find the first record that the group has not read. Everything before `log.first` must be covered.

    `vector` covers the records that existed when the group committed, `read` also those that existed before. `low`
    is the log's current start offset: a consumer that is sent to a deleted offset may jump to the log's end.
    `whole` tells whether `read` is all that the group has read.
    """
    offset, here = max(log.first_uncovered(read), low), log.seen_at(log.end)
    bound: int | None = log.covered_behind(offset, read) if whole and log.knows_all_from(offset) else None
    settled = True
    for origin, reached in vector.items():
        passed = here.get(origin, _NOTHING)
        if passed >= reached:
            continue
        # Records that the group has read and that have not arrived here yet will lie after the offset.
        settled = False
        known = passed[0] == reached[0] or (origin not in here and reached[0] == FIRST_INCARNATION)
        to_come = max(0, read[origin][1] - passed[1]) if known else None
        bound = None if bound is None or to_come is None else min(bound + to_come, _MOST)
    return ChosenOffset(offset=offset, re_read_bound=bound, settled=settled)


def with_margin(chosen: ChosenOffset, at_timestamp: int) -> ChosenOffset:
    """Lower the choice to `at_timestamp`, the first offset with at least the distributed timestamp."""
    if at_timestamp >= chosen.offset:
        return chosen
    return ChosenOffset(
        offset=at_timestamp,
        re_read_bound=None
        if chosen.re_read_bound is None
        else chosen.re_read_bound + chosen.offset - at_timestamp,
        settled=chosen.settled,
    )
