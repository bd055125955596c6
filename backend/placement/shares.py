"""How full brokers get: as even as the racks allow.

Each broker gets as many replicas as any other, within one, unless the racks forbid it: where each partition has to
have a replica in a rack of few brokers these get more, and the others share the rest. The loads are those of the
flow that pours partitions over racks at the least cost where a broker's k-th replica costs k: what is least there
is least for every convex measure of evenness (no broker can be relieved by one that has two fewer, or more).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.flows import Network
from backend.placement.problem import Brokers, Ints
from backend.placement.racks import rack_bounds


@dataclass(frozen=True)
class Bounds:
    """The fewest and the most replicas of a partition in each rack, by replication factor and rack."""

    least: Ints
    most: Ints

    @staticmethod
    def of(sizes: Ints, wanted: Ints) -> Bounds:
        """For all replication factors up to the largest; no rack may have anything where there is no way."""
        highest = int(wanted.max(initial=0))
        least, most = (np.zeros((highest + 1, len(sizes)), dtype=np.int64) for _ in range(2))
        for replicas in np.unique(wanted).tolist():
            if replicas <= int(sizes.sum()):
                least[replicas], most[replicas] = rack_bounds(sizes, replicas)
        return Bounds(least, most)


def rack_levels(brokers: Brokers, bounds: Bounds, by_factor: Ints, fixed: Ints) -> Ints:
    """For each rack how many replicas its fullest broker gets; all the others that are not too full anyhow get as
    many, or one fewer.

    `by_factor`: partitions that are placed, by replication factor; `fixed`: what each broker has besides.
    """
    racks = len(brokers.racks)
    factors = np.flatnonzero(by_factor)
    counts = by_factor[factors]
    first_rack, sink = len(factors), len(factors) + racks
    network = Network()
    network.supply(np.arange(len(factors)), counts * factors)
    network.supply(sink, -int((counts * factors).sum()))
    for row, (factor, count) in enumerate(zip(factors.tolist(), counts.tolist(), strict=True)):
        least, most = count * bounds.least[factor], count * bounds.most[factor]
        network.supply(row, -int(least.sum()))
        network.supply(first_rack + np.arange(racks), least)
        network.add(row, first_rack + np.arange(racks), most - least, 0)
    highest = counts @ bounds.most[factors] if len(factors) else np.zeros(racks, np.int64)
    arcs = []
    for rack in range(racks):
        levels, sizes = _steps(np.sort(fixed[(brokers.rack_of == rack) & brokers.may_hold]), int(highest[rack]))
        arcs.append((levels, network.add(first_rack + rack, sink, sizes, levels)))
    network.solve()
    found = np.zeros(racks, dtype=np.int64)
    for rack, (levels, added) in enumerate(arcs):
        used = levels[network.flow(added) > 0]
        # Of one that gets nothing, what its emptiest broker would come to: it may get what another one gets.
        lowest = levels[0] if len(levels) else 0
        found[rack] = max(int(used.max(initial=0)), int(lowest))
    return found


def _steps(fixed: Ints, amount: int) -> tuple[Ints, Ints]:
    """Levels, and how many brokers of a rack come up to each, while `amount` is poured over them; `fixed`, sorted,
    is what they have before."""
    if not len(fixed) or not amount:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    top = int(fixed[0]) + amount // len(fixed) + 1
    while int(np.maximum(top - fixed, 0).sum()) < amount:
        top += max(1, (amount - int(np.maximum(top - fixed, 0).sum())) // len(fixed))
    levels = np.arange(int(fixed[0]) + 1, top + 1, dtype=np.int64)
    return levels, np.searchsorted(fixed, levels, side="left").astype(np.int64)


@dataclass(frozen=True)
class Steps:
    """What brokers take at which price: evenly filled ones come first."""

    brokers: Ints
    levels: Ints
    """By step and broker: up to which load the step goes;"""
    sizes: Ints
    """how many replicas there are in it,"""
    ranks: Ints
    """and its price, by the order of the levels of all: evenness depends on nothing but the order."""

    def hold(self, loads: Ints) -> bool:
        """Whether loads are such that no other steps would have led to others."""
        mine = loads[self.brokers]
        free = self.sizes.sum(axis=0) > 0
        return not (free & ((mine >= self.levels[-1]) | (mine < self.levels[0]))).any()


def broker_steps(brokers: Brokers, levels: Ints, fixed: Ints, width: int) -> Steps:
    """Steps of one replica next to the level of each broker's rack, so many to each side, and one for all
    below."""
    usable = np.flatnonzero(brokers.is_usable)
    level, has = levels[brokers.rack_of[usable]], fixed[usable]
    around = level[None, :] + np.arange(-width - 1, width + 1)[:, None]
    sizes = (has[None, :] < around).astype(np.int64)
    sizes[0] = np.maximum(around[0] - has, 0)
    known = np.unique(around[1:])
    ranks = 1 + np.searchsorted(known, around)
    ranks[0] = 0
    return Steps(usable, around, sizes, ranks)
