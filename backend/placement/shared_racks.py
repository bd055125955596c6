"""Partitions of a group that may have several replicas in a rack: the ones that stay, and the racks of new ones.

It matters which replicas leave: if one partition lost everything in a rack and another one nothing, neither would
be spread as required; and one that kept two in each of two racks would have none left for a third. Each partition
gets the minimum in each rack, and one more in as many racks as it has replicas left for. The flow decides how many
of the group's partitions a rack gives one more.
"""

from __future__ import annotations

import numpy as np

from backend.placement.flows import matched
from backend.placement.problem import Bools, Ints


class Sharing:
    """The sharing of racks within one group, processed rack by rack."""

    def __init__(self, partitions: int, factor: int, least: Ints, more: Ints) -> None:
        self._least, self._more = least, more.copy()
        self._spare = np.full(partitions, factor - int(least.sum()), dtype=np.int64)
        self._has_more = np.zeros((partitions, len(least)), dtype=bool)

    def may_stay(self, rack: int, left: Ints, holding: Ints, kept: Ints, broker: Ints, limits: Ints) -> Bools:
        """Tell which of the replicas in a rack stay; `left` are their partitions.

        As many of each holding stay as the flow keeps (`kept`, by replica), then on each broker no more than its
        final number (`limits`, by replica).
        """
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
        """Return by partition and rack how many replicas it is to have there; valid after all racks."""
        pairs = (self._spare > 0)[:, None] & ~self._has_more & (self._more > 0)
        left, right = np.nonzero(pairs)
        dealt = matched(left, right, self._spare, self._more)
        found = self._least + self._has_more
        found[left[dealt], right[dealt]] += 1
        return np.asarray(found, np.int64)
