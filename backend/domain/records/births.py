"""Incarnations of the records that are born in one partition of a cluster's topic.

A topic that is made anew, or whose log is cut off, gives out offsets a second time; the incarnation tells apart
the records that have the same one.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

from backend.domain.records.origin import Vector

Births = tuple[tuple[int, int], ...]
"""(offset, incarnation of the records born from there on), both rising; the first offset is 0."""

FIRST_INCARNATION = 1
_ANY_INCARNATION = 2**32


def incarnation_at(births: Births, offset: int) -> int:
    """Of a record that is born at an offset."""
    if len(births) == 1:
        return births[0][1]
    return births[bisect.bisect_right(births, (offset, _ANY_INCARNATION)) - 1][1]


def passed(cluster: int, births: Births, offset: int, vector: Vector) -> Vector:
    """Beyond the vector at an offset of the cluster's log: what was born there before it, whether or not it is in
    the log still.

    Of a later incarnation than the first only if the vector names it: it says that all of earlier ones is there,
    too, and what was lost of those may have been read by nobody.
    """
    if not births or offset <= 0:
        return {}
    incarnation, reached = incarnation_at(births, offset - 1), vector.get(cluster)
    if incarnation != FIRST_INCARNATION and (reached is None or reached[0] != incarnation):
        return {}
    return {cluster: (incarnation, offset - 1)} if reached is None or reached < (incarnation, offset - 1) else {}


def births_of(tails: Mapping[int, Births], partition: int, incarnation: int) -> Births:
    """Of a partition; `tails` has those whose log was cut off, all others have the topic's incarnation."""
    return tails.get(partition) or ((0, incarnation),)


def cut_off(births: Births, offset: int, incarnation: int) -> Births:
    """Births after the log was cut off before an offset, from which on those of a new incarnation are born."""
    return (*(each for each in births if each[0] < offset), (offset, incarnation))
