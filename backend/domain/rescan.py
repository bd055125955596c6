"""Where an edge begins to read its source, so that nothing that the target lacks lies before it.

An edge may read on at a position of the source's log iff, for every origin on its routes, all records of that
origin before the position are covered by the target's vector. Records of an origin lie in a log in the order of
their offsets, so the source's vector at the position (`seen`) tells. After a change of routes the own position
often fails this, and the edge scans again from an earlier **checkpoint**: an offset of the source's log with the
vector seen there. Without one it scans from the log's beginning: slower, and as right.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from backend.domain import origin
from backend.domain.origin import Vector
from backend.domain.partition_edge import Births


@dataclass(frozen=True)
class Checkpoint:
    """An offset of a log, the incarnation of a record born there, and the log's vector before it."""

    offset: int
    incarnation: int
    seen: Vector


BEGINNING = Checkpoint(0, 0, {})
"""The log's first offset, whichever it is."""


def start(candidates: Iterable[Checkpoint], births: Births, origins: Iterable[int], covered: Vector) -> Checkpoint:
    """The furthest of the candidates, or BEGINNING, from which an edge that carries `origins` misses nothing."""
    carried = tuple(origins)
    fit = (
        valid
        for valid in (_within(candidate, births) for candidate in candidates)
        if valid is not None and origin.covers(covered, valid.seen, carried)
    )
    return max(fit, key=lambda one: one.offset, default=BEGINNING)


def _within(candidate: Checkpoint, births: Births) -> Checkpoint | None:
    """The candidate in the log as it is now: a tail that was lost takes the position back to where it was cut;
    in a topic that was made anew the old one's positions mean nothing."""
    at = bisect.bisect_right([incarnation for _, incarnation in births], candidate.incarnation) - 1
    if at < 0:
        return None
    end = births[at + 1][0] if at + 1 < len(births) else None
    if end is None or candidate.offset <= end:
        return candidate
    return Checkpoint(end, births[at + 1][1], candidate.seen)
