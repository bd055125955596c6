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
    wanted: Ints
    """By broker: how many of those it gets."""
    group: Ints
    """New replicas on a broker that the flow has chosen: the group of each,"""
    broker: Ints
    """and the broker."""


def least_moves(brokers: Brokers, groups: Groups, bounds: Bounds, fixed: Ints) -> Flow:
    """The cheapest flow; `fixed` is what brokers have besides. Raises NoFlow."""
    levels = rack_levels(brokers, bounds, groups.by_factor, fixed)
    highest = int(fixed.max(initial=0)) + int(groups.size @ groups.factor)
    width = 1
    while True:
        # How full racks get says how full brokers do, unless two replicas of a partition would meet there.
        steps = broker_steps(brokers, levels, fixed, width)
        with contextlib.suppress(NoFlow):
            flow, loads = _flow(brokers, groups, bounds, steps)
            if steps.hold(fixed + loads):
                return replace(flow, squares=squares_of(brokers, fixed + loads))
        if width > highest:
            raise NoFlow
        width *= 4


def squares_of(brokers: Brokers, loads: Ints) -> int:
    """How even loads are on the brokers that may have some."""
    mine = loads[brokers.is_usable]
    return int((mine * mine).sum())


def _flow(brokers: Brokers, groups: Groups, bounds: Bounds, steps: Steps) -> tuple[Flow, Ints]:
    """The cheapest flow by these steps, and what it gives each broker."""
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
    pooled = groups.is_pooled(bounds)[rows, columns]
    to_pool = network.add(nodes[pooled], pool + columns[pooled], most[rows, columns][pooled], move)
    usable = np.flatnonzero(brokers.is_usable)
    from_pool = network.add(pool + brokers.rack_of[usable], broker + usable, int(groups.size @ groups.factor), 0)
    some, chosen = _elsewhere(brokers, groups, rows[~pooled], columns[~pooled])
    direct = network.add(
        in_rack + some * racks + brokers.rack_of[chosen], broker + chosen, groups.size[some], move
    )
    taken = [
        network.add(broker + steps.brokers, sink, sizes, ranks * uneven)
        for sizes, ranks in zip(steps.sizes, steps.ranks, strict=True)
    ]
    network.solve()
    into = np.zeros((count, racks), dtype=np.int64)
    into[rows[pooled], columns[pooled]] = network.flow(to_pool)
    wanted = np.zeros(total, dtype=np.int64)
    wanted[usable] = network.flow(from_pool)
    times = network.flow(direct)
    moves = int(into.sum() + times.sum())
    loads = np.zeros(total, dtype=np.int64)
    loads[steps.brokers] = sum(network.flow(each) for each in taken)
    kept = network.flow(keeps[0]) + network.flow(keeps[1])
    flow = Flow(moves, 0, kept, into, wanted, np.repeat(some, times), np.repeat(chosen, times))
    return flow, loads


def _elsewhere(brokers: Brokers, groups: Groups, rows: Ints, racks: Ints) -> tuple[Ints, Ints]:
    """(groups, brokers): all brokers of these racks that the groups have nothing on."""
    usable = np.flatnonzero(brokers.is_usable)
    usable = usable[np.argsort(brokers.rack_of[usable], kind="stable")]
    sizes = brokers.rack_sizes
    starts = np.concatenate(([0], np.cumsum(sizes)))
    times = sizes[racks]
    some = np.repeat(rows, times)
    within = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    chosen = usable[np.repeat(starts[racks], times) + within]
    total = len(brokers.broker_ids)
    is_there = np.isin(some * total + chosen, groups.held_by * total + groups.holder)
    return some[~is_there], chosen[~is_there]
