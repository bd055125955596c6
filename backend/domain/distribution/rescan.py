"""Where an edge begins to read its source, so that nothing that the target lacks lies before it.

An edge may read on at a position of the source's log iff, for every origin on its routes, all records of that
origin before the position are covered by the target's vector. Records of an origin lie in a log in the order of
their offsets, so the source's vector at the position (`seen`) tells. After a change of routes the own position
often fails this, and the edge scans again from an earlier **checkpoint**: an offset of the source's log with the
vector seen there. Without one it scans from the log's beginning: slower, and as right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.domain.records import origin
from backend.domain.records.births import Births
from backend.domain.records.origin import Vector


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
        candidate
        for candidate in candidates
        if holds(candidate, births) and origin.covers(covered, candidate.seen, carried)
    )
    return max(fit, key=lambda one: one.offset, default=BEGINNING)


def worth_keeping(offsets: Iterable[int]) -> frozenset[int]:
    """Of a partition's checkpoints those to keep: dense near the newest, ever fewer further back.

    The further a target is behind, the more it has to read anyway: with at most two per power of two of the
    distance to the newest, a scan begins less than twice as far back as it must.
    """
    ordered = sorted(set(offsets), reverse=True)
    kept: dict[int, list[int]] = {}
    for each in ordered:
        near = kept.setdefault((ordered[0] - each).bit_length(), [])
        # The nearest and the furthest of each power of two.
        if len(near) < 2:
            near.append(each)
        else:
            near[1] = each
    return frozenset(each for near in kept.values() for each in near)


def holds(candidate: Checkpoint, births: Births) -> bool:
    """Whether the candidate is a place of the log as it is now.

    In a topic that was made anew the old one's places mean nothing. Of a log that was cut off since, those behind
    the cut are gone, and what is known of them (`seen`) says too much of what lies before it: records that were
    lost may come a second time, and would be taken for records born here.
    """
    if candidate.incarnation < births[0][1]:
        return False
    return all(candidate.offset <= cut for cut, incarnation in births if incarnation > candidate.incarnation)
