"""The position where an edge begins to read its source, so that the target lacks nothing before it.

An edge may continue at a position of the source's log iff, for every origin on its routes, the target's vector
covers all records of that origin before the position. Records of an origin lie in a log in the order of their
offsets, so the source's vector at the position (`seen`) decides this. After a change of routes the task's own
position often fails the test, and the edge scans again from an earlier **checkpoint**: an offset of the source's
log with the vector seen there. Without a checkpoint it scans from the log's beginning: slower, and as correct.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.domain.records import origin
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.origin import Vector


@dataclass(frozen=True)
class Checkpoint:
    """An offset of a log, the incarnation of a record born there, and the log's vector before it."""

    offset: int
    incarnation: int
    seen: Vector


BEGINNING = Checkpoint(0, 0, {})
"""The log's first offset, whatever its number."""


def start(
    candidates: Iterable[Checkpoint], incarnations: Incarnations, origins: Iterable[int], covered: Vector
) -> Checkpoint:
    """Return the furthest candidate from which an edge that carries `origins` misses nothing, or BEGINNING."""
    carried = tuple(origins)
    fit = (
        candidate
        for candidate in candidates
        if holds(candidate, incarnations) and origin.covers(covered, candidate.seen, carried)
    )
    return max(fit, key=lambda one: one.offset, default=BEGINNING)


def worth_keeping(offsets: Iterable[int]) -> frozenset[int]:
    """Return the checkpoints of a partition that are worth keeping: dense near the newest, sparser further back.

    The further a target lags, the more it has to read anyway: with at most two checkpoints per power of two of the
    distance to the newest, a scan begins less than twice as far back as necessary.
    """
    ordered = sorted(set(offsets), reverse=True)
    kept: dict[int, list[int]] = {}
    for each in ordered:
        near = kept.setdefault((ordered[0] - each).bit_length(), [])
        # Keep the nearest and the furthest of each power of two.
        if len(near) < 2:
            near.append(each)
        else:
            near[1] = each
    return frozenset(each for near in kept.values() for each in near)


def holds(candidate: Checkpoint, incarnations: Incarnations) -> bool:
    """Return whether the candidate is a valid place of the current log.

    In a re-created topic the places of the old one mean nothing. In a log that was truncated since, places beyond
    the cut are gone, and their `seen` claims too much of what lies before the cut: lost records may arrive a
    second time, and would be mistaken for records produced here.
    """
    if candidate.incarnation < incarnations[0][1]:
        return False
    return all(candidate.offset <= cut for cut, incarnation in incarnations if incarnation > candidate.incarnation)
