"""Incarnations of the records that are produced to one partition of a cluster's topic.

A topic that is re-created, or whose log is truncated, assigns offsets a second time; the incarnation tells apart
the records that share an offset.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

from backend.domain.records.origin import Vector

Incarnations = tuple[tuple[int, int], ...]
"""(Offset, incarnation of the records produced from there on), both rising; the first offset is 0."""

FIRST_INCARNATION = 1
_ANY_INCARNATION = 2**32


def incarnation_at(incarnations: Incarnations, offset: int) -> int:
    """Return the incarnation of a record produced at an offset."""
    if len(incarnations) == 1:
        return incarnations[0][1]
    return incarnations[bisect.bisect_right(incarnations, (offset, _ANY_INCARNATION)) - 1][1]


def passed(cluster: int, incarnations: Incarnations, offset: int, vector: Vector) -> Vector:
    """Return how far the log prefix before an offset exceeds the vector with records produced on the cluster.

    Records that have left the log since count as well.

    An incarnation after the first counts only if the vector names it: the result claims that all records of
    earlier incarnations are there, too, and those that were lost may never have been read.
    """
    if not incarnations or offset <= 0:
        return {}
    incarnation, reached = incarnation_at(incarnations, offset - 1), vector.get(cluster)
    if incarnation != FIRST_INCARNATION and (reached is None or reached[0] != incarnation):
        return {}
    return {cluster: (incarnation, offset - 1)} if reached is None or reached < (incarnation, offset - 1) else {}


def incarnations_of(tails: Mapping[int, Incarnations], partition: int, incarnation: int) -> Incarnations:
    """Return the incarnations of a partition; `tails` has truncated logs, others have `incarnation` only."""
    return tails.get(partition) or ((0, incarnation),)


def truncated(incarnations: Incarnations, offset: int, incarnation: int) -> Incarnations:
    """Return the incarnations after a log was truncated at an offset, where a new incarnation begins."""
    return (*(each for each in incarnations if each[0] < offset), (offset, incarnation))
