"""Compare vectors to decide whether a log has all records that another log held at one moment.

`wanted` is the vector of a prefix of the source's log, `covered` that of the target. Records of an origin are in
every log in the order of their offsets there, so one comparison per origin decides. Records that were produced on
the target itself need no comparison.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend.domain.records.incarnations import FIRST_INCARNATION, Incarnations
from backend.domain.records.log_index import Prefix
from backend.domain.records.origin import Vector

Reached = tuple[int, int]
"""(incarnation, offset)."""

_NOTHING = (-1, -1)


def lacking(wanted: Vector, covered: Vector, target: int) -> Vector:
    """Return the origins of which a target (cluster number) lacks records, with how far each is wanted."""
    return {
        origin: reached
        for origin, reached in wanted.items()
        if origin != target and reached > covered.get(origin, _NOTHING)
    }


def most_missing(lacks: Vector, covered: Vector, held: int) -> int:
    """Return an upper bound of the records that a target lacks, at most the `held` records of the source's log.

    Offsets are counted: it is unknown which of them are transaction markers or aborted records.
    """
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
    """Return `wanted` without the records that no distributor can copy any more.

    For the origins in `lacks`, only records found in the source's log (`present`) remain. Records removed there by
    retention or compaction are not lost by leaving the cluster.
    """
    found = {origin: reached for origin, reached in wanted.items() if origin not in lacks}
    for origin, reached in lacks.items():
        if origin in present:
            found[origin] = min(reached, present[origin])
    return found


def gone_before(lacks: Vector, bases: list[Prefix], low: int) -> Vector:
    """Return the origins in `lacks` without a record in a log that begins at `low`.

    An origin has none if all its wanted records had been seen at a known prefix before `low`.
    """
    before = [base for base in bases if base.offset <= low]
    return {
        origin: reached
        for origin, reached in lacks.items()
        if any(base.seen.get(origin, _NOTHING) >= reached for base in before)
    }


def first_at_risk(
    number: int,
    incarnations: Incarnations,
    low: int,
    end: int,
    known: Prefix | None,
    covered: Mapping[int, Reached],
) -> int | None:
    """Return the first offset before `end` that may hold a record that only this log has; None: there is none.

    `number`: number of the log's cluster; `known`: the furthest prefix, not behind `end`, whose vector is known;
    `covered`: vector of the leaf that has most of this cluster's records.
    """
    has = covered.get(number)
    own = None if known is None else known.seen.get(number)
    if known is not None and (own is None or (has is not None and own <= has)):
        # All records produced here before that prefix exist elsewhere.
        return max(known.offset, low) if max(known.offset, low) < end else None
    first = low
    if has is not None:
        later = [start for start, incarnation in incarnations if incarnation > has[0]]
        # Records of a later incarnation begin where that incarnation does.
        first = max(low, min([has[1] + 1, *later]) if incarnations[0][1] <= has[0] else low)
    return first if first < end else None
