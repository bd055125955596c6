"""How many records a target lacks of what a source holds, told from positions and vectors.

The furthest outgoing unit of the source says, with its position, which vector lies before it; what the target has
is the highest of what its inbound units have covered. So the target lacks, of each origin, what lies between the
two, and at most all that lies behind the position. Offsets count here: markers of transactions and holes that
compaction left are counted as records, so the figure is never too small. (docs/decisions/0034, "Drained is a
statement about vectors".)
"""

from __future__ import annotations

from collections.abc import Iterable

from backend.domain.records import origin
from backend.domain.records.births import Births, incarnation_at
from backend.domain.records.marks import Position
from backend.domain.records.origin import Vector
from backend.domain.switch import draining


def lacking(
    *,
    low: int,
    end: int,
    births: Births,
    outgoing: Iterable[Position],
    covered: Iterable[Vector],
    target_number: int,
) -> int:
    """At most so many records of a partition, whose log goes from `low` to `end` on the source.

    `outgoing`: positions of the source's units; those of a log that is no more do not count. `covered`: what the
    target has, as each of its inbound units knows.
    """
    known = [
        each
        for each in outgoing
        if each.offset <= end and each.mark.incarnation in (0, incarnation_at(births, each.offset))
    ]
    if not known:
        return end - low
    furthest = max(known, key=lambda each: each.offset)
    here = origin.merge(covered)
    lacks = draining.lacking(furthest.mark.seen, here, target_number)
    missing = draining.most_missing(lacks, here, max(0, furthest.offset - low))
    return missing + end - max(low, furthest.offset)
