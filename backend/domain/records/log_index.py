"""The index of one log: where its blocks begin, with the vector there, and what is known of the records in each.

An index saves reading a log again for every commit. It is a row of **marks**, one at the beginning of every
`BLOCK` offsets from somewhere on, in order. Each has the vector of the records before it; all but the last also
what is asked of the records up to the next one: the smallest timestamp, and the last record. What a run has to
read is then the blocks in which offsets are asked about, and what came behind the last mark (`plan`); what it read
makes new marks (`extended`).

Rows that stand for many records are **segments**, as `spark/transforms.py` has them: for each origin in them the
highest that came of it, and the smallest timestamp and the last record of all together.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from backend.domain.records.origin import Vector, merge

BLOCK = 1_000
"""Offsets between two marks: so many records are read again at most for an offset that is asked about."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place of the index; `min_timestamp_ms` and `last` are of the records from here to the next mark, None if
    there are none, or if this is the last mark."""

    first: int
    seen: Vector
    min_timestamp_ms: int | None = None
    last: tuple[int, int] | None = None
    """(offset, timestamp) of the last record."""
    whole: bool = True
    """Whether `seen` has all that ever lay before; not if part of it was gone before anybody had looked."""


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """What is known of the records before an offset from elsewhere: a commit there, or a checkpoint."""

    offset: int
    seen: Vector
    whole: bool = True
    """As of a mark."""


class Prefixes:
    """All that is known of a log's beginning from elsewhere."""

    def __init__(self, found: Iterable[Prefix] = ()) -> None:
        self._ordered = sorted(found, key=lambda each: each.offset)
        # Asked about for many offsets: so each is put together once.
        self._seen = list(itertools.accumulate((each.seen for each in self._ordered), lambda *two: merge(two)))
        self._whole = [each.offset for each in self._ordered if each.whole]

    def before(self, offset: int, low: int) -> tuple[Vector, bool]:
        """(vector of what is known to lie before an offset, whether that is all before some place that the log
        still has): taken together with what is read from there on. `low`: where the log begins by now."""
        count = bisect.bisect_right(self._ordered, offset, key=lambda each: each.offset)
        at = bisect.bisect_right(self._whole, offset)
        return self._seen[count - 1] if count else {}, at > 0 and self._whole[at - 1] >= min(low, offset)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Records from an offset on, of one origin (None: not known, or none at all)."""

    first: int
    origin: int | None
    reached: tuple[int, int] | None
    """(incarnation, offset) on the cluster of origin, the highest of the segment or of all before its end."""
    min_timestamp_ms: int | None
    last: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """Offsets to be read, and the vector of the records before them."""

    first: int
    end: int
    seen: Vector
    whole: bool = True
    """As of a mark, at `first`."""
    begun: int | None = None
    """The block in which it begins, where that is only because what lay before is gone: a mark stands there."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run reads of a log, and what it knows already of the rest."""

    parts: tuple[Part, ...]
    known: tuple[Segment, ...]
    answers: bool
    """Whether the offsets asked about can be answered after this run; if not, more has to be read first."""
    anew: bool
    """Whether the marks that there were are to be forgotten."""


def plan(marks: Sequence[Mark], base: Mark | None, low: int, end: int, asked: Collection[int], most: int) -> Plan:
    """What to read so that all `asked` can be answered; not more than `most` offsets that have no marks yet.

    `marks` in order, perhaps none; `base`: a place before the first mark from which reading can begin (a
    checkpoint, or the log's first offset), given if an offset before the first mark is asked about, or there is no
    mark. The log's offsets are from `low` up to, not with, `end`.
    """
    anew = base is not None and bool(marks) and marks[0].first - base.first > most
    if anew:
        # Marks stand in one row: what is too long to be closed at once is made again from its beginning.
        marks = ()
    growing: list[Part] = []
    if base is not None:
        growing.append(_from(base, low, marks[0].first if marks else end))
    again = [
        _from(mark, low, following.first)
        for mark, following in itertools.pairwise(marks)
        if any(mark.first <= offset < following.first for offset in asked)
    ]
    if marks:
        growing.append(_from(marks[-1], low, end))
    longest = growing[-1]
    if longest.end - longest.first > most:
        few = replace(longest, end=longest.first + max(most, 2 * BLOCK))
        return Plan(parts=(few,), known=(), answers=False, anew=anew)
    parts = sorted((part for part in [*growing, *again] if part.first < part.end), key=lambda part: part.first)
    return Plan(parts=tuple(parts), known=tuple(_known(marks, base, parts)), answers=True, anew=anew)


def is_whole(marks: Sequence[Mark], offset: int, low: int) -> bool:
    """Whether what is known at the mark before an offset, with what is read from there on, is all that ever lay
    before the offset; `marks` in order, `low`: where the log begins by now."""
    before = bisect.bisect_right(marks, offset, key=lambda mark: mark.first)
    return before > 0 and _knows_all(marks[before - 1], low)


def _knows_all(mark: Mark, low: int) -> bool:
    """What lay between a mark and where the log begins by now is gone, and nobody has looked."""
    return mark.whole and mark.first >= low


def _from(mark: Mark, low: int, end: int) -> Part:
    """From a mark on, or from where the log begins by now."""
    begun = low // BLOCK * BLOCK if mark.first < low else None
    return Part(first=max(mark.first, low), end=end, seen=mark.seen, whole=_knows_all(mark, low), begun=begun)


def _known(marks: Sequence[Mark], base: Mark | None, parts: Sequence[Part]) -> Iterable[Segment]:
    """What lies before the first part, between the parts, and behind the last one, condensed."""
    seen_at = [(part.first, part.seen) for part in parts]
    until = [(first, seen) for first, seen in seen_at] + [
        (None, marks[-1].seen if marks else base.seen if base else {})
    ]
    since = [-1, *(part.end for part in parts)]
    for begin, (end, seen) in zip(since, until, strict=True):
        # A part may begin inside a block, whose own records count only where they are read.
        blocks = [
            mark for mark in marks[:-1] if mark.first >= begin and (end is None or mark.first + BLOCK <= end)
        ]
        # Also where two parts touch: what the later one's mark knows is more if the earlier one begins with a gap.
        yield from _condensed(begin if end is None else min(begin, end - 1), seen, blocks)


def _condensed(first: int, seen: Vector, blocks: Sequence[Mark]) -> Iterable[Segment]:
    smallest = min((mark.min_timestamp_ms for mark in blocks if mark.min_timestamp_ms is not None), default=None)
    last = max((mark.last for mark in blocks if mark.last is not None), default=None)
    for number, reached in seen.items():
        yield Segment(first=first, origin=number, reached=reached, min_timestamp_ms=smallest, last=last)
    if not seen and last is not None:
        yield Segment(first=first, origin=None, reached=None, min_timestamp_ms=smallest, last=last)


def extended(part: Part, found: Iterable[Segment]) -> list[Mark]:
    """Marks at the blocks that begin in a part that was read. The last has nothing of its own: what is behind it
    was not read to the end of its block."""
    rows_of: dict[int, list[Segment]] = {}
    for segment in found:
        block = segment.first // BLOCK * BLOCK
        if part.first // BLOCK * BLOCK <= block < part.end:
            rows_of.setdefault(block, []).append(segment)
    marks: list[Mark] = []
    seen, block = part.seen, part.first // BLOCK * BLOCK
    while True:
        rows, whole = rows_of.get(block, []), block + BLOCK <= part.end
        if block >= part.first or block == part.begun:
            timestamps = [row.min_timestamp_ms for row in rows if whole and row.min_timestamp_ms is not None]
            lasts = [row.last for row in rows if whole and row.last is not None]
            smallest, last = min(timestamps, default=None), max(lasts, default=None)
            marks.append(Mark(first=block, seen=seen, min_timestamp_ms=smallest, last=last, whole=part.whole))
        if not whole:
            return marks
        seen = merge(
            [seen, *({row.origin: row.reached} for row in rows if row.origin is not None and row.reached)]
        )
        block += BLOCK
        if block == part.end:
            return [*marks, Mark(first=block, seen=seen, whole=part.whole)]
