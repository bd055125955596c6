"""Target loads of brokers: as balanced as the racks allow.

Each broker gets as many replicas as any other, within one, unless the racks forbid it: where each partition must
have a replica in a rack with few brokers, these get more, and the others share the rest. The loads are those of
the flow that distributes partitions over racks at the least cost when a broker's k-th replica costs k: a minimum
of that cost is a minimum of every convex measure of imbalance (no broker can be relieved by one that has two
fewer, or more).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.flows import Network
from backend.placement.problem import Brokers, Ints
from backend.placement.racks import rack_bounds


@dataclass(frozen=True)
class Bounds:
    """The minimum and maximum of a partition's replicas in each rack, by replication factor and rack."""

    least: Ints
    most: Ints

    @staticmethod
    def of(sizes: Ints, wanted: Ints) -> Bounds:
        """Compute the bounds for all replication factors up to the largest; zero for those that do not fit."""
        highest = int(wanted.max(initial=0))
        least, most = (np.zeros((highest + 1, len(sizes)), dtype=np.int64) for _ in range(2))
        for replicas in np.unique(wanted).tolist():
            if replicas <= int(sizes.sum()):
                least[replicas], most[replicas] = rack_bounds(sizes, replicas)
        return Bounds(least, most)


def rack_levels(brokers: Brokers, bounds: Bounds, by_factor: Ints, fixed: Ints) -> Ints:
    """Return the number of replicas of the fullest broker in each rack.

    All others in the rack that do not exceed it already get as many, or one fewer. `by_factor` counts the
    partitions to place by replication factor; `fixed` is what each broker has besides.
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
        # A rack that gets nothing has the level of its emptiest broker: that broker may take what another one
        # gets.
        lowest = levels[0] if len(levels) else 0
        found[rack] = max(int(used.max(initial=0)), int(lowest))
    return found


def _steps(fixed: Ints, amount: int) -> tuple[Ints, Ints]:
    """Return levels, and how many brokers of a rack reach each, while `amount` replicas are distributed over them.

    `fixed`, sorted, is what the brokers have before.
    """
    if not len(fixed) or not amount:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    top = int(fixed[0]) + amount // len(fixed) + 1
    while int(np.maximum(top - fixed, 0).sum()) < amount:
        top += max(1, (amount - int(np.maximum(top - fixed, 0).sum())) // len(fixed))
    levels = np.arange(int(fixed[0]) + 1, top + 1, dtype=np.int64)
    return levels, np.searchsorted(fixed, levels, side="left").astype(np.int64)


@dataclass(frozen=True)
class Steps:
    """Capacities of brokers by price: steps that keep brokers balanced are cheaper."""

    brokers: Ints
    levels: Ints
    """Load up to which a step goes, by step and broker."""
    sizes: Ints
    """Number of replicas in each step, by step and broker."""
    ranks: Ints
    """Price of each step: the rank of its level among all levels, since balance depends on the order alone."""

    def hold(self, loads: Ints) -> bool:
        """Tell whether finer steps could not have changed the loads."""
        mine = loads[self.brokers]
        free = self.sizes.sum(axis=0) > 0
        return not (free & ((mine >= self.levels[-1]) | (mine < self.levels[0]))).any()


def broker_steps(brokers: Brokers, levels: Ints, fixed: Ints, width: int) -> Steps:
    """Return steps of one replica around the level of each broker's rack, and one step for all levels below.

    `width` is the number of single steps on each side.
    """
    usable = np.flatnonzero(brokers.is_usable)
    level, has = levels[brokers.rack_of[usable]], fixed[usable]
    around = level[None, :] + np.arange(-width - 1, width + 1)[:, None]
    sizes = (has[None, :] < around).astype(np.int64)
    sizes[0] = np.maximum(around[0] - has, 0)
    known = np.unique(around[1:])
    ranks = 1 + np.searchsorted(known, around)
    ranks[0] = 0
    return Steps(usable, around, sizes, ranks)
