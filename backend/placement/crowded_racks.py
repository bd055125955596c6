"""The choice of replicas that stay where partitions exceed a rack's maximum.

Each such partition is special, for it matters which of its replicas leave. A few are placed one by one; if there
are many (a cluster's racks have just become known), that flow would be as large as the cluster. Then a flow that
ignores which replicas belong to one partition decides how many stay on each broker and yields the lower bound;
replicas leave so that these numbers are kept as far as their partitions allow; and a second flow places what stays
like any other cluster. If both move equally many, the result is optimal.
"""

from __future__ import annotations

import numpy as np

from backend.placement.flows import matched
from backend.placement.grouping import Grouped, holdings_at, in_racks, is_first
from backend.placement.load_levels import Bounds
from backend.placement.move_flow import Flow
from backend.placement.problem import Bools, Ints, Problem, Replicas, nth, starts_of


def relieved(some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow) -> Replicas:
    """Return the partitions' replicas without those that must leave racks with too many.

    `flow` is that of groups that ignore which replicas belong to one partition. Groups are independent.
    """
    now, groups = some.now, grouped.groups
    crowded = in_racks(some, now)[:, :-1] > bounds.most[some.wanted]
    replicas = np.flatnonzero(some.is_usable[now.brokers])
    owner, rack = now.owners[replicas], some.rack_of[now.brokers[replicas]]
    is_crowded = crowded[owner, rack]
    replicas, owner, rack = replicas[is_crowded], owner[is_crowded], rack[is_crowded]
    group = grouped.group_of[owner]
    preferred = is_first(now)[replicas]
    holding = holdings_at(some, groups, group, now.brokers[replicas], preferred)
    kept = flow.kept[holding]
    place = group * len(some.racks) + rack
    stays = np.ones(len(now.brokers), dtype=bool)
    by_place = np.argsort(place, kind="stable")
    for mine in np.split(by_place, np.flatnonzero(np.diff(place[by_place])) + 1):
        if len(mine):
            limit = int(bounds.most[some.wanted[owner[mine[0]]], rack[mine[0]]])
            stays[replicas[mine]] = _staying(owner[mine], holding[mine], preferred[mine], kept[mine], limit)
    return Replicas(starts_of(np.bincount(now.owners[stays], minlength=len(now))), now.brokers[stays])


def _staying(owner: Ints, holding: Ints, preferred: Bools, kept: Ints, limit: int) -> Bools:
    """Tell which replicas stay: `limit` of each partition, preferred ones first, and few enough of each holding.

    The flow says how many of a holding stay. Where its numbers cannot be met, a partition's first replicas make up
    for what is missing.
    """
    owners, left = np.unique(owner, return_inverse=True)
    _, first, right = np.unique(holding, return_index=True, return_inverse=True)
    stays = preferred & (nth(right) < kept)
    rest = np.flatnonzero(~preferred)
    free = limit - np.bincount(left[stays], minlength=len(owners))
    stays[rest] = matched(left[rest], right[rest], free, kept[first])
    missing = limit - np.bincount(left[stays], minlength=len(owners))
    others = np.flatnonzero(~stays)
    stays[others[nth(left[others]) < missing[left[others]]]] = True
    return stays
