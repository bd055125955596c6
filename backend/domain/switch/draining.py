"""Whether a log has all that another one held at one moment, told by their vectors.

`wanted` is the vector of a prefix of the source's log, `covered` that of the target. Records of an origin lie in
every log in the order of their offsets there, so per origin one comparison tells. What was born on the target
itself needs no cover.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend.domain.records.births import FIRST_INCARNATION, Births
from backend.domain.records.log_index import Prefix
from backend.domain.records.origin import Vector

Reached = tuple[int, int]
"""(incarnation, offset)."""

_NOTHING = (-1, -1)


def lacking(wanted: Vector, covered: Vector, target: int) -> Vector:
    """The origins of which a target (by its cluster's number) lacks records, with how far they are wanted."""
    return {
        origin: reached
        for origin, reached in wanted.items()
        if origin != target and reached > covered.get(origin, _NOTHING)
    }


def most_missing(lacks: Vector, covered: Vector, held: int) -> int:
    """How many records a target lacks at most, which is never more than the source's log holds. Offsets count:
    nobody knows which of them were given to markers, or aborted."""
    total = 0
    for origin, (incarnation, offset) in lacks.items():
        has = covered.get(origin)
        if has is not None and has[0] == incarnation:
            total += offset - has[1]
        elif has is None and incarnation == FIRST_INCARNATION:
            total += offset + 1
        else:
            return held
    return min(total, held)


def still_there(wanted: Vector, lacks: Vector, present: Vector) -> Vector:
    """What is wanted, less what nobody can bring any more: of the origins in `lacks` only what was found in the
    source's log (`present`). What retention or compaction took there is not lost by leaving the cluster."""
    found = {origin: reached for origin, reached in wanted.items() if origin not in lacks}
    for origin, reached in lacks.items():
        if origin in present:
            found[origin] = min(reached, present[origin])
    return found


def gone_before(lacks: Vector, bases: list[Prefix], low: int) -> Vector:
    """Those of the origins in `lacks` that have no record in a log that begins at `low`: at a place before that
    all of them had been seen."""
    before = [base for base in bases if base.offset <= low]
    return {
        origin: reached
        for origin, reached in lacks.items()
        if any(base.seen.get(origin, _NOTHING) >= reached for base in before)
    }


def first_at_risk(
    number: int, births: Births, low: int, end: int, known: Prefix | None, covered: Mapping[int, Reached]
) -> int | None:
    """The first offset of a log, of those before `end`, whose record was perhaps born there and is nowhere else;
    None: there is none.

    `number`: of the log's cluster; `known`: the furthest place at which its vector is known, not behind `end`;
    `covered`: what the leaf that has most of the cluster's records has of them.
    """
    has = covered.get(number)
    own = None if known is None else known.seen.get(number)
    if known is not None and (own is None or (has is not None and own <= has)):
        # All that was born before that place is elsewhere.
        return max(known.offset, low) if max(known.offset, low) < end else None
    first = low
    if has is not None:
        later = [start for start, incarnation in births if incarnation > has[0]]
        # What was born in a later incarnation begins where that does.
        first = max(low, min([has[1] + 1, *later]) if births[0][1] <= has[0] else low)
    return first if first < end else None
