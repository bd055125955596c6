"""The choice of replicas to move: as few as balance and racks allow, with the proof of minimality.

It is one minimum-cost flow: partitions send their replicas to racks, and racks send them to brokers; staying costs
nothing, and going anywhere else in a rack costs one. Where no rack has two replicas of a partition, it does not
matter which broker of the rack gets a new one, so that racks need only one node each ("pool") for new replicas.
The cost is lexicographic: balance first, then moves, then what is left behind (preferred replicas, bytes).

Few partitions are handled one by one. Many are handled in groups whose replicas are in the same racks
(`grouping`), which gives the same bound; `group_placement` turns the flow of groups into a plan.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np

from backend.placement.flows import Network, NoFlow
from backend.placement.grouping import Groups
from backend.placement.load_levels import Bounds, Steps, broker_steps, rack_levels
from backend.placement.problem import Brokers, Ints


@dataclass(frozen=True)
class Flow:
    """The result of the flow, group by group."""

    moves: int
    """Number of replicas that move to another broker."""
    squares: int
    """Sum of the squares of the brokers' resulting replica counts, the measure of balance."""
    kept: Ints
    """Number of replicas that stay, by row of the groups' holdings."""
    into_rack: Ints
    """Number of a group's replicas that are new in a rack, on whichever broker, by group and rack."""
    group: Ints
    """Group of each entry of new replicas whose broker the flow has chosen."""
    broker: Ints
    """Broker of each such entry."""
    times: Ints
    """Number of replicas of each such entry; one where the group is a single partition."""
    loads: Ints
    """Number of replicas that each broker ends up with, of all groups."""

    def planned(self, brokers: Brokers, groups: Groups) -> Ints:
        """Return by broker how many new replicas it gets from its rack's pool, if `kept` replicas stay."""
        total = len(brokers.broker_ids)
        here = np.bincount(groups.holder, self.kept, total) + np.bincount(self.broker, self.times, total)
        return self.loads - here.astype(np.int64)


def least_moves(brokers: Brokers, groups: Groups, bounds: Bounds, fixed: Ints) -> Flow:
    """Compute the cheapest flow; `fixed` is what brokers hold besides. Raises NoFlow."""
    flow = _cheapest(brokers, groups, bounds, fixed)
    several = groups.have_several(brokers, bounds)
    if not several.any():
        return flow
    # Of the flows with equal cost, take one that drains a rack's brokers evenly. Of two replicas that a partition
    # has in a rack, either can stay; that choice is lost if one broker gives up nothing and another everything.
    return _cheapest(brokers, groups.steadied(brokers, several, flow.kept), bounds, fixed)


def _cheapest(brokers: Brokers, groups: Groups, bounds: Bounds, fixed: Ints) -> Flow:
    levels = rack_levels(brokers, bounds, groups.by_factor, fixed)
    highest = int(fixed.max(initial=0)) + int(groups.size @ groups.factor)
    width = 1
    while True:
        # The level of a rack gives the loads of its brokers, unless two replicas of a partition would meet there.
        steps = broker_steps(brokers, levels, fixed, width)
        with contextlib.suppress(NoFlow):
            flow = _flow(brokers, groups, bounds, steps)
            if steps.hold(fixed + flow.loads):
                return replace(flow, squares=squares_of(brokers, fixed + flow.loads))
        if width > highest:
            raise NoFlow
        width *= 4


def squares_of(brokers: Brokers, loads: Ints) -> int:
    """Return the sum of squares of the loads on usable brokers, the measure of balance."""
    mine = loads[brokers.is_usable]
    return int((mine * mine).sum())


def _flow(brokers: Brokers, groups: Groups, bounds: Bounds, steps: Steps) -> Flow:
    """Compute the cheapest flow for these steps of price."""
    racks, total, count = len(brokers.racks), len(brokers.broker_ids), len(groups.size)
    in_rack, pool = count, count + count * racks
    broker, sink = pool + racks, pool + racks + total
    least = groups.size[:, None] * bounds.least[groups.factor]
    most = groups.size[:, None] * bounds.most[groups.factor]
    # A cycle of the flow passes each broker and pool at most once, so each objective outweighs the next lower one
    # by that factor.
    hops = total + racks + 2
    move = hops * (int(groups.worth.max(initial=0)) + 2)
    uneven = hops * 2 * move
    network = Network()
    network.supply(np.arange(count), groups.size * groups.factor - least.sum(axis=1))
    rows, columns = np.nonzero(most)
    nodes = in_rack + rows * racks + columns
    network.supply(nodes, least[rows, columns])
    network.supply(sink, -int((groups.size * groups.factor).sum()))
    spare = (most - least)[rows, columns]
    network.add(rows[spare > 0], nodes[spare > 0], spare[spare > 0], 0)
    at = brokers.rack_of[groups.holder]
    holding, holder = in_rack + groups.held_by * racks + at, broker + groups.holder
    keeps = [
        network.add(holding, holder, groups.steady, -groups.worth - 1),
        network.add(holding, holder, groups.held - groups.steady, -groups.worth),
    ]
    # A partition with one replica in a rack may use any of its other brokers: the pool chooses.
    pooled = bounds.most[groups.factor[rows], columns] == 1
    to_pool = network.add(nodes[pooled], pool + columns[pooled], most[rows, columns][pooled], move)
    usable = np.flatnonzero(brokers.is_usable)
    network.add(pool + brokers.rack_of[usable], broker + usable, int(groups.size @ groups.factor), 0)
    some, chosen, free = _elsewhere(brokers, groups, rows[~pooled], columns[~pooled])
    direct = network.add(in_rack + some * racks + brokers.rack_of[chosen], broker + chosen, free, move)
    taken = [
        network.add(broker + steps.brokers, sink, sizes, ranks * uneven)
        for sizes, ranks in zip(steps.sizes, steps.ranks, strict=True)
    ]
    network.solve()
    into = np.zeros((count, racks), dtype=np.int64)
    into[rows[pooled], columns[pooled]] = network.flow(to_pool)
    times = network.flow(direct)
    moves = int(into.sum() + times.sum())
    loads = np.zeros(total, dtype=np.int64)
    loads[steps.brokers] = sum(network.flow(each) for each in taken)
    kept = network.flow(keeps[0]) + network.flow(keeps[1])
    some, chosen, times = (each[times > 0] for each in (some, chosen, times))
    return Flow(moves, 0, kept, into, some, chosen, times, loads)


def _elsewhere(brokers: Brokers, groups: Groups, rows: Ints, racks: Ints) -> tuple[Ints, Ints, Ints]:
    """List the brokers of racks that lack some of a group's partitions, as (groups, brokers, free places)."""
    usable = np.flatnonzero(brokers.is_usable)
    usable = usable[np.argsort(brokers.rack_of[usable], kind="stable")]
    sizes = brokers.rack_sizes
    starts = np.concatenate(([0], np.cumsum(sizes)))
    times = sizes[racks]
    some = np.repeat(rows, times)
    within = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    chosen = usable[np.repeat(starts[racks], times) + within]
    total = len(brokers.broker_ids)
    keys, at = np.unique(groups.held_by * total + groups.holder, return_inverse=True)
    held = np.bincount(at, groups.held, len(keys)).astype(np.int64)
    free = groups.size[some]
    if len(keys):
        place = np.minimum(np.searchsorted(keys, some * total + chosen), len(keys) - 1)
        free = free - np.where(keys[place] == some * total + chosen, held[place], 0)
    return some[free > 0], chosen[free > 0], free[free > 0]
