"""Partitions of a group that may have several replicas in a rack: which of these stay, and where what is new goes.

It matters which leave: if one partition lost all that it has in a rack and another one nothing, neither would be
spread as it is to be; and one that kept two in each of two racks would have none left for a third. Each gets the
least that it is to have in each rack, and one more in so many racks as it has replicas for. Of how many of the
group's partitions a rack gets one more is for the flow to say.
"""

from __future__ import annotations

import numpy as np

from backend.placement.flows import matched
from backend.placement.problem import Bools, Ints


class Sharing:
    """One group, rack after rack."""

    def __init__(self, partitions: int, factor: int, least: Ints, more: Ints) -> None:
        self._least, self._more = least, more.copy()
        self._spare = np.full(partitions, factor - int(least.sum()), dtype=np.int64)
        self._has_more = np.zeros((partitions, len(least)), dtype=bool)

    def let(self, rack: int, left: Ints, holding: Ints, kept: Ints, broker: Ints, limits: Ints) -> Bools:
        """Which of these replicas in a rack stay, whose partitions are `left`: of each holding as many as the flow
        keeps (`kept`, by replica), else on each broker no more than it is to come to (`limits`, by replica)."""
        stays = np.zeros(len(left), dtype=bool)
        for places, most in ((holding, kept), (broker, limits)):
            rest = np.flatnonzero(~stays)
            names, first, right = np.unique(places, return_index=True, return_inverse=True)
            free = most[first] - np.bincount(right[stays], minlength=len(names))
            stays[rest] = self._matched(
                rack, left[rest], right[rest], free, np.bincount(left[stays], minlength=len(self._spare))
            )
        return stays

    def _matched(self, rack: int, left: Ints, right: Ints, free: Ints, has: Ints) -> Bools:
        least = int(self._least[rack])
        may = (self._spare > 0) & ~self._has_more[:, rack]
        found = matched(left, right, np.maximum(least - has, 0), free, int(self._more[rack]), may)
        self._give(np.flatnonzero(has + np.bincount(left[found], minlength=len(has)) > least), rack)
        return found

    def _give(self, partitions: Ints, rack: int) -> None:
        new = partitions[~self._has_more[partitions, rack]]
        self._has_more[new, rack] = True
        self._spare[new] -= 1
        self._more[rack] -= len(new)

    def rooms(self) -> Ints:
        """By partition and rack: how many replicas it is to have there, after all racks."""
        pairs = (self._spare > 0)[:, None] & ~self._has_more & (self._more > 0)
        left, right = np.nonzero(pairs)
        dealt = matched(left, right, self._spare, self._more)
        found = self._least + self._has_more
        found[left[dealt], right[dealt]] += 1
        return np.asarray(found, np.int64)
