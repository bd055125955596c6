"""Index of one log: a mark at the start of each block with the vector there, and facts on the block's records.

The index saves reading a log again for every commit. It is a contiguous row of **marks**, one at the beginning of
every `BLOCK` offsets. Each has the vector of the records before it; all but the last also have the smallest
timestamp and the last record of the offsets up to the next mark. A run reads only the blocks that contain
requested offsets, and what came after the last mark (`plan`); the result yields new marks (`extended`).

Rows that stand for many records are **segments**, as in `spark/transforms.py`: for each of their origins the
highest record, and the smallest timestamp and the last record of all together.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from backend.domain.records.origin import Vector, merge

BLOCK = 1_000
"""Offsets between two marks, and the most records that are read again for a requested offset."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A mark of the index; `min_timestamp_ms` and `last` describe the records from here to the next mark.

    They are None if there are no records, or if this is the last mark.
    """

    first: int
    seen: Vector
    min_timestamp_ms: int | None = None
    last: tuple[int, int] | None = None
    """(Offset, timestamp) of the last record."""
    whole: bool = True
    """True if `seen` has all records that ever lay before; False if some were gone before they could be read."""


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """Knowledge from another source about the records before an offset: a commit there, or a checkpoint."""

    offset: int
    seen: Vector
    whole: bool = True
    """Same meaning as `Mark.whole`."""


class Prefixes:
    """Everything that other sources know about a log's beginning."""

    def __init__(self, found: Iterable[Prefix] = ()) -> None:
        self._ordered = sorted(found, key=lambda each: each.offset)
        # Accumulated once, because many offsets are requested.
        self._seen = list(itertools.accumulate((each.seen for each in self._ordered), lambda *two: merge(two)))
        self._whole = [each.offset for each in self._ordered if each.whole]

    def before(self, offset: int, low: int) -> tuple[Vector, bool]:
        """Return the vector known before an offset, and whether it is complete together with the records read.

        It is complete if a whole prefix reaches some place that the log still has. `low`: the log's first offset
        now.
        """
        count = bisect.bisect_right(self._ordered, offset, key=lambda each: each.offset)
        at = bisect.bisect_right(self._whole, offset)
        return self._seen[count - 1] if count else {}, at > 0 and self._whole[at - 1] >= min(low, offset)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Records from an offset on, of one origin (None: unknown, or no record at all)."""

    first: int
    origin: int | None
    reached: tuple[int, int] | None
    """(Incarnation, offset) on the origin cluster: the highest in the segment, or of all records before its
    end."""
    min_timestamp_ms: int | None
    last: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """Offsets to read, and the vector of the records before them."""

    first: int
    end: int
    seen: Vector
    whole: bool = True
    """Same meaning as `Mark.whole`, at `first`."""
    begun: int | None = None
    """Block of `first`, if the part starts inside it only because earlier records are gone: a mark stands
    there."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parts of a log that a run reads, and what is already known about the rest."""

    parts: tuple[Part, ...]
    known: tuple[Segment, ...]
    answers: bool
    """True if the requested offsets can be answered after this run; if not, more has to be read first."""
    anew: bool
    """True if the existing marks are discarded."""


def plan(marks: Sequence[Mark], base: Mark | None, low: int, end: int, asked: Collection[int], most: int) -> Plan:
    """Plan what to read so that all `asked` offsets can be answered, with at most `most` offsets without marks.

    `marks` are in order, perhaps empty; `base` is a place before the first mark from which reading can begin (a
    checkpoint, or the log's first offset), given if an offset before the first mark is requested, or there is no
    mark. The log's offsets run from `low` to `end`, exclusive.
    """
    anew = base is not None and bool(marks) and marks[0].first - base.first > most
    if anew:
        # Marks must be contiguous: a gap that is too long to be closed at once is rebuilt from its beginning.
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
    """Return whether the mark before an offset, with the records from there on, covers all before the offset.

    `marks` are in order; `low` is the log's first offset now.
    """
    before = bisect.bisect_right(marks, offset, key=lambda mark: mark.first)
    return before > 0 and _knows_all(marks[before - 1], low)


def _knows_all(mark: Mark, low: int) -> bool:
    """Return whether a mark's vector is complete: records between the mark and `low` are gone unread."""
    return mark.whole and mark.first >= low


def _from(mark: Mark, low: int, end: int) -> Part:
    """Return the part from a mark, or from the log's first offset if that is later, to `end`."""
    begun = low // BLOCK * BLOCK if mark.first < low else None
    return Part(first=max(mark.first, low), end=end, seen=mark.seen, whole=_knows_all(mark, low), begun=begun)


def _known(marks: Sequence[Mark], base: Mark | None, parts: Sequence[Part]) -> Iterable[Segment]:
    """Yield condensed segments for what lies before the first part, between parts, and after the last one."""
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
        # Also where two parts touch: the later part's mark knows more if the earlier part begins with a gap.
        yield from _condensed(begin if end is None else min(begin, end - 1), seen, blocks)


def _condensed(first: int, seen: Vector, blocks: Sequence[Mark]) -> Iterable[Segment]:
    smallest = min((mark.min_timestamp_ms for mark in blocks if mark.min_timestamp_ms is not None), default=None)
    last = max((mark.last for mark in blocks if mark.last is not None), default=None)
    for number, reached in seen.items():
        yield Segment(first=first, origin=number, reached=reached, min_timestamp_ms=smallest, last=last)
    if not seen and last is not None:
        yield Segment(first=first, origin=None, reached=None, min_timestamp_ms=smallest, last=last)


def extended(part: Part, found: Iterable[Segment]) -> list[Mark]:
    """Return the marks of the blocks that begin in a part that was read.

    The last mark has no facts of its own: its block was not read to the end.
    """
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
