"""One log on a target, as far as the offset committer has walked through it: which record is the first that a
group has not read elsewhere.

Records of an origin lie in every log in the order of their offsets there. So per origin two rising columns are
enough: where its records lie here, and how far each reaches. The first of an origin beyond a vector is found by
halving."""

from __future__ import annotations

import bisect
from array import array
from dataclasses import dataclass, field

from backend.domain.records.births import FIRST_INCARNATION
from backend.domain.records.origin import Vector

Reached = tuple[int, int]
_NOTHING = (-1, -1)
_MOST = 2**62
"""Of a bound, which has to be kept in 64 bits whatever others wrote into the map."""


@dataclass(slots=True)
class _Track:
    """Records of one origin: `places` in this log, `incarnations` and `offsets` where they were born."""

    places: array[int] = field(default_factory=lambda: array("q"))
    incarnations: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Reached:
        return self.incarnations[index], self.offsets[index]


class TargetLog:
    """Records from `first` on, of which the vector `seen` is known; `end` is where walking on begins."""

    def __init__(self, first: int, seen: Vector) -> None:
        self.first = self.end = first
        self._before = dict(seen)
        self._tracks: dict[int, _Track] = {}
        self._unknown: array[int] = array("q")
        self._replayed: array[int] = array("q")

    def add(self, place: int, origin: int | None, reached: Reached | None) -> None:
        """The next record; origin None if it carries flags, but no origin: no vector speaks of it, so nobody can
        tell who has read it."""
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
            # One that was set aside and is replayed comes behind later ones: it is covered when they are.
            self._replayed.append(place)

    def walked_to(self, end: int) -> None:
        """No record lies between the last one and `end`."""
        self.end = max(self.end, end)

    @property
    def size(self) -> int:
        """Records that are held."""
        return len(self._unknown) + len(self._replayed) + sum(len(track) for track in self._tracks.values())

    def knows_all_from(self, place: int) -> bool:
        """Whether all records at or behind a place say where they were born."""
        return not self._unknown or self._unknown[-1] < place

    def reaches_back_to(self, vector: Vector) -> bool:
        """Whether everything before `first` is covered by the vector: then the first that is not lies behind."""
        return all(reached <= vector.get(origin, _NOTHING) for origin, reached in self._before.items())

    def first_uncovered(self, vector: Vector) -> int:
        """The first record that the vector does not cover; `end` if it covers all."""
        places = [self.end, *self._unknown[:1]]
        for origin, track in self._tracks.items():
            index = bisect.bisect_right(track, vector.get(origin, _NOTHING))
            if index < len(track):
                places.append(track.places[index])
        return min(places)

    def seen_at(self, place: int) -> Vector:
        """The vector of the records before a place, at or behind `first`."""
        seen = dict(self._before)
        for origin, track in self._tracks.items():
            index = bisect.bisect_left(track.places, place)
            if index:
                seen[origin] = track[index - 1]
        return seen

    def covered_behind(self, place: int, vector: Vector) -> int:
        """How many records at or behind a place the vector covers, at most."""
        count = len(self._replayed) - bisect.bisect_left(self._replayed, place)
        for origin, track in self._tracks.items():
            covered = bisect.bisect_right(track, vector.get(origin, _NOTHING))
            count += max(0, covered - bisect.bisect_left(track.places, place))
        return count

    def forget_before(self, place: int) -> None:
        """Hold no record before a place any more."""
        self._before = self.seen_at(place)
        for track in self._tracks.values():
            index = bisect.bisect_left(track.places, place)
            del track.places[:index], track.incarnations[:index], track.offsets[:index]
        for places in (self._unknown, self._replayed):
            del places[: bisect.bisect_left(places, place)]
        self.first = max(self.first, min(place, self.end))


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Where a group is to go on."""

    offset: int
    re_read_bound: int | None
    """At most so many records that it has read elsewhere come again; None: nobody can tell, since an origin's
    topic was made anew between what is here and what the group has read, or records do not say where they were
    born, or what the group has read is gone where it committed."""
    settled: bool
    """Whether the target has all that the group has read: if not, the offset rises as the rest arrives."""


def exact(vector: Vector, read: Vector, log: TargetLog, low: int = 0, *, whole: bool = True) -> Chosen:
    """The first record that the group has not read. Everything before `log.first` must be covered.

    `vector`: of the records that were there when it committed; `read`: with those that had been there; `low`:
    where the log begins by now: a consumer that is sent to what is gone may begin at the log's end; `whole`:
    whether `read` is all that the group has read.
    """
    offset, here = max(log.first_uncovered(read), low), log.seen_at(log.end)
    bound: int | None = log.covered_behind(offset, read) if whole and log.knows_all_from(offset) else None
    settled = True
    for origin, reached in vector.items():
        passed = here.get(origin, _NOTHING)
        if passed >= reached:
            continue
        # What the group has read and has not arrived here yet will lie behind the offset.
        settled = False
        known = passed[0] == reached[0] or (origin not in here and reached[0] == FIRST_INCARNATION)
        to_come = max(0, read[origin][1] - passed[1]) if known else None
        bound = None if bound is None or to_come is None else min(bound + to_come, _MOST)
    return Chosen(offset=offset, re_read_bound=bound, settled=settled)


def with_margin(chosen: Chosen, at_timestamp: int) -> Chosen:
    """Not behind `at_timestamp`, the first offset whose record has the distributed timestamp or a later one."""
    if at_timestamp >= chosen.offset:
        return chosen
    return Chosen(
        offset=at_timestamp,
        re_read_bound=None
        if chosen.re_read_bound is None
        else chosen.re_read_bound + chosen.offset - at_timestamp,
        settled=chosen.settled,
    )
