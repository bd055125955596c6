"""The choice of replicas that stay, of partitions placed together: as many on each broker as the flow says."""

from __future__ import annotations

import numpy as np

from backend.placement.grouping import Grouped, Groups, holdings_at, is_first
from backend.placement.load_levels import Bounds
from backend.placement.move_flow import Flow
from backend.placement.problem import Bools, Brokers, Ints, Problem, nth
from backend.placement.shared_racks import Sharing


def staying(some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow) -> tuple[Bools, Ints]:
    """Return (mask of the replicas that stay, places by partition and rack).

    A place is a replica that a partition is to have in a rack if its group may have several there, else 0. Groups
    are independent.
    """
    now, groups = some.now, grouped.groups
    stays: Bools = some.is_usable[now.brokers]
    replicas = np.flatnonzero(stays)
    owner, broker = now.owners[replicas], now.brokers[replicas]
    group, rack = grouped.group_of[owner], some.rack_of[broker]
    holding = holdings_at(some, groups, group, broker, is_first(now)[replicas])
    leaving = (groups.held - flow.kept)[holding]
    lost = now.counts - np.bincount(owner, minlength=len(now))
    shared = groups.sharing(bounds)
    sharing = _sharing(some, grouped, bounds, flow)
    # Limits are only used where a rack is shared.
    limits = _limits(some, groups, flow, group, broker) if sharing else group
    place = nth(grouped.group_of) if sharing else grouped.group_of
    for each in range(len(some.racks)):
        mine = np.flatnonzero(rack == each)
        is_shared = shared[group[mine], each]
        alone = mine[~is_shared & (leaving[mine] > 0)]
        # Replicas leave partitions first that lose nothing else, which find another rack most easily; then the
        # smallest.
        ranked = alone[np.lexsort((alone, some.size_bytes[owner[alone]], lost[owner[alone]], holding[alone]))]
        going = [ranked[nth(holding[ranked]) < leaving[ranked]]]
        several = mine[is_shared]
        for number in np.unique(group[several]).tolist():
            rows = several[group[several] == number]
            may_stay = sharing[number].may_stay(
                each, place[owner[rows]], holding[rows], flow.kept[holding[rows]], broker[rows], limits[rows]
            )
            going.append(rows[~may_stay])
        gone = np.concatenate(going)
        stays[replicas[gone]] = False
        lost += np.bincount(owner[gone], minlength=len(now))
    room = np.zeros((len(now), len(some.racks)), dtype=np.int64)
    for number, one in sharing.items():
        room[grouped.group_of == number] = one.rooms()
    return stays, room


def _sharing(some: Brokers, grouped: Grouped, bounds: Bounds, flow: Flow) -> dict[int, Sharing]:
    """Return the sharing of each group that is present here and may have several replicas in a rack."""
    groups, racks = grouped.groups, len(some.racks)
    here = np.unique(grouped.group_of)
    here = here[groups.sharing(bounds)[here].any(axis=1)]
    at = np.concatenate([groups.held_by, flow.group]) * racks
    at += some.rack_of[np.concatenate([groups.holder, flow.broker])]
    times = np.concatenate([flow.kept, flow.times])
    in_rack = np.bincount(at, times, len(groups.size) * racks).astype(np.int64).reshape(-1, racks)
    least = bounds.least[groups.factor]
    more = in_rack + flow.into_rack - groups.size[:, None] * least
    return {
        number: Sharing(int(groups.size[number]), int(groups.factor[number]), least[number], more[number])
        for number in here.tolist()
    }


def _limits(some: Brokers, groups: Groups, flow: Flow, group: Ints, broker: Ints) -> Ints:
    """Return for each replica how many its group is to have on that broker, where the flow has chosen brokers."""
    total = len(some.broker_ids)
    at = np.concatenate([groups.held_by, flow.group]) * total + np.concatenate([groups.holder, flow.broker])
    keys, index = np.unique(at, return_inverse=True)
    times = np.bincount(index, np.concatenate([flow.kept, flow.times]), len(keys)).astype(np.int64)
    return times[np.searchsorted(keys, group * total + broker)]
