"""Which replicas move: as few as evenness and racks allow, and the proof of it.

One flow: partitions hand their replicas to racks, racks to brokers; it costs nothing to stay where one is, and one
to go anywhere else in a rack. Where no rack has two replicas of a partition it does not matter which broker of a
rack another one of them goes to, so that racks need one node each ("pool") for what is new. A flow's cost is
lexicographic: evenness, then moves, then what is left behind (preferred replicas, bytes).

Partitions are taken one by one where they are few; else together with all that have their replicas in the same
racks (`grouping`), which gives the same bound, and a plan that `realising` makes of it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np

from backend.placement.flows import Network, NoFlow
from backend.placement.grouping import Groups
from backend.placement.problem import Brokers, Ints
from backend.placement.shares import Bounds, Steps, broker_steps, rack_levels


@dataclass(frozen=True)
class Flow:
    """What the flow says, group by group."""

    moves: int
    """So many replicas go elsewhere."""
    squares: int
    """Sum of the squares of what brokers have then: how even that is."""
    kept: Ints
    """By row of the groups' holdings: how many of them stay."""
    into_rack: Ints
    """By group and rack: how many of the group's replicas are new there, on whichever broker."""
    group: Ints
    """New replicas on brokers that the flow has chosen: the group,"""
    broker: Ints
    """the broker,"""
    times: Ints
    """and how many; one where the group is one partition."""
    loads: Ints
    """By broker: what it has of all groups then."""

    def planned(self, brokers: Brokers, groups: Groups) -> Ints:
        """By broker: how many new ones it gets that came by way of its rack, if what is kept stays."""
        total = len(brokers.broker_ids)
        here = np.bincount(groups.holder, self.kept, total) + np.bincount(self.broker, self.times, total)
        return self.loads - here.astype(np.int64)


def least_moves(brokers: Brokers, groups: Groups, bounds: Bounds, fixed: Ints) -> Flow:
    """The cheapest flow; `fixed` is what brokers have besides. Raises NoFlow."""
    flow = _cheapest(brokers, groups, bounds, fixed)
    several = groups.have_several(brokers, bounds)
    if not several.any():
        return flow
    # Among flows that cost the same one that takes from a rack's brokers evenly: of two replicas that a partition
    # has there one can stay if either may, but if neither broker gives up any, or both give up all, it is not so.
    return _cheapest(brokers, groups.steadied(brokers, several, flow.kept), bounds, fixed)


def _cheapest(brokers: Brokers, groups: Groups, bounds: Bounds, fixed: Ints) -> Flow:
    levels = rack_levels(brokers, bounds, groups.by_factor, fixed)
    highest = int(fixed.max(initial=0)) + int(groups.size @ groups.factor)
    width = 1
    while True:
        # How full racks get says how full brokers do, unless two replicas of a partition would meet there.
        steps = broker_steps(brokers, levels, fixed, width)
        with contextlib.suppress(NoFlow):
            flow = _flow(brokers, groups, bounds, steps)
            if steps.hold(fixed + flow.loads):
                return replace(flow, squares=squares_of(brokers, fixed + flow.loads))
        if width > highest:
            raise NoFlow
        width *= 4


def squares_of(brokers: Brokers, loads: Ints) -> int:
    """How even loads are on the brokers that may have some."""
    mine = loads[brokers.is_usable]
    return int((mine * mine).sum())


def _flow(brokers: Brokers, groups: Groups, bounds: Bounds, steps: Steps) -> Flow:
    """The cheapest flow by these steps."""
    racks, total, count = len(brokers.racks), len(brokers.broker_ids), len(groups.size)
    in_rack, pool = count, count + count * racks
    broker, sink = pool + racks, pool + racks + total
    least = groups.size[:, None] * bounds.least[groups.factor]
    most = groups.size[:, None] * bounds.most[groups.factor]
    # A cycle of the flow passes each broker and pool at most once: so much more than the next lower aim weighs
    # one.
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
    # Where partitions have one replica in a rack it does not matter which of its other brokers gets it.
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
    """(groups, brokers, how many): all brokers of these racks on which not all of the groups' partitions are, and
    how many are not."""
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
