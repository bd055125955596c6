"""Computes from positions and vectors how many records of a source a target lacks.

The position of the source's furthest outgoing task says which vector lies before it; the target has the merged
vectors that its inbound tasks have covered. So the target lacks, for each origin, at most the difference of the
two, plus all records behind the position. Offsets are counted: transaction markers and holes left by compaction
count as records, so the figure is never too small. (docs/decisions/0034, "Drained is a statement about vectors".)
"""

from __future__ import annotations

from collections.abc import Iterable

from backend.domain.records import origin
from backend.domain.records.incarnations import Incarnations, incarnation_at
from backend.domain.records.marks import Position
from backend.domain.records.origin import Vector
from backend.domain.switch import draining


def lacking(
    *,
    low: int,
    end: int,
    incarnations: Incarnations,
    outgoing: Iterable[Position],
    covered: Iterable[Vector],
    target_number: int,
) -> int:
    """Return an upper bound of a partition's missing records, for a log from `low` to `end` on the source.

    `outgoing`: positions of the source's tasks; those of an earlier incarnation of the log do not count.
    `covered`: vectors that the target has, as reported by each of its inbound tasks.
    """
    known = [
        each
        for each in outgoing
        if each.offset <= end and each.mark.incarnation in (0, incarnation_at(incarnations, each.offset))
    ]
    if not known:
        return end - low
    furthest = max(known, key=lambda each: each.offset)
    here = origin.merge(covered)
    lacks = draining.lacking(furthest.mark.seen, here, target_number)
    missing = draining.most_missing(lacks, here, max(0, furthest.offset - low))
    return missing + end - max(low, furthest.offset)
