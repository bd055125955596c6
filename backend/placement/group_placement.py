"""Replicas of partitions from a flow of groups: the ones removed from each partition, and the new ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.grouping import Grouped, in_racks
from backend.placement.kept_replicas import staying
from backend.placement.load_levels import Bounds
from backend.placement.move_flow import Flow
from backend.placement.problem import Bools, Brokers, Ints, Problem, Replicas, nth, starts_of


@dataclass(frozen=True)
class Opened:
    """The replicas that partitions keep, and the racks in which each gets new ones."""

    kept: Replicas
    owner: Ints
    """Partition of each new replica whose broker is not chosen yet."""
    rack: Ints
    """Rack of each such replica."""
    direct: Ints
    """Partition of each new replica whose broker the flow has chosen."""
    broker: Ints
    """Broker of each such replica."""

    def loads(self, brokers: Brokers) -> Ints:
        """Return by broker the number of replicas whose place is known so far."""
        return brokers.loads(self.kept) + np.bincount(self.broker, minlength=len(brokers.broker_ids))

    def filled(self, chosen: Ints) -> Replicas:
        """Return the replicas with brokers for the new ones, which follow those that stay, in their order."""
        owners = np.concatenate([self.kept.owners, self.owner, self.direct])
        brokers = np.concatenate([self.kept.brokers, chosen, self.broker])
        counts = np.bincount(owners, minlength=len(self.kept))
        return Replicas(starts_of(counts), brokers[np.argsort(owners, kind="stable")])


def realise(some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow) -> Replicas:
    """Return the replicas of the groups' partitions.

    If a group has many partitions, some may have a broker or a rack twice afterwards; `sound` finds these.
    """
    opened = open_places(some, grouped, bounds, flow)
    topics = some.topic_of[opened.owner]
    wanted = flow.loads - opened.loads(some)
    return opened.filled(choose_brokers(some, wanted, topics, opened.owner, opened.rack))


def open_places(some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow) -> Opened:
    """Decide which replicas partitions lose, and the racks in which they get new ones.

    Groups are independent: a subset of the partitions that has all or none of each group has the same result.
    """
    now, groups = some.now, grouped.groups
    stays, room = staying(some, grouped, bounds, flow)
    kept = Replicas(starts_of(np.bincount(now.owners[stays], minlength=len(now))), now.brokers[stays])
    owner, rack = _new_places(some, grouped, bounds, flow, kept, room)
    first = np.full(len(groups.size), -1, dtype=np.int64)
    first[grouped.group_of[::-1]] = np.arange(len(now) - 1, -1, -1)
    here = (first[flow.group] >= 0) & (groups.size[flow.group] == 1)
    return Opened(kept, owner, rack, first[flow.group][here], flow.broker[here])


def _new_places(
    some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow, kept: Replicas, room: Ints
) -> tuple[Ints, Ints]:
    """Return (partitions, racks) of new replicas that have no broker yet.

    Each rack's share of a group goes to the partitions that need a replica there most; where racks are shared, to
    those that have room there.
    """
    were = grouped.groups.has_been_in(some)
    sharing = np.asarray(grouped.groups.sharing(bounds).any(axis=1), bool)
    filling = _Filling(some, grouped, bounds, flow, kept)
    # Returns to racks of the group come first: only partitions that have left such a rack can take them.
    for is_return in (True, False):
        left = np.where((were == is_return) & ~sharing[:, None], flow.into_rack, 0)
        for rack in np.argsort(-left.sum(axis=0), kind="stable").tolist():
            filling.fill(rack, left[:, rack])
    free = np.maximum(room - in_racks(some, kept)[:, :-1], 0)
    owner, rack = np.nonzero(free)
    times = free[owner, rack]
    owners, racks = [*filling.owners, np.repeat(owner, times)], [*filling.racks, np.repeat(rack, times)]
    return np.concatenate(owners), np.concatenate(racks)


class _Filling:
    """Assignment of racks to partitions that need replicas."""

    def __init__(self, brokers: Brokers, grouped: Grouped, bounds: Bounds, flow: Flow, kept: Replicas) -> None:
        groups = grouped.groups
        self._group_of = grouped.group_of
        self._counts = in_racks(brokers, kept)[:, :-1]
        direct = np.bincount(flow.group, flow.times, len(groups.size)).astype(np.int64)
        alone = np.where(groups.size == 1, direct, 0)
        self._need = groups.factor[self._group_of] - kept.counts - alone[self._group_of]
        self._least, self._most = bounds.least[groups.factor], bounds.most[groups.factor]
        self.owners: list[Ints] = [np.zeros(0, np.int64)]
        self.racks: list[Ints] = [np.zeros(0, np.int64)]

    def fill(self, rack: int, into: Ints) -> None:
        """Give a rack to `into` partitions of each group."""
        into = into.copy()
        # A partition gets one replica in each pass, and several in one rack only if racks are fewer than replicas.
        while True:
            rows = np.flatnonzero((self._need > 0) & (into[self._group_of] > 0))
            if not len(rows):
                return
            group, has = self._group_of[rows], self._counts[rows, rack]
            # Partitions below the rack's minimum come first, those at its maximum last; ties go to the one that
            # lacks most.
            least, most = self._least[group, rack], self._most[group, rack]
            urgency = np.where(has < least, 0, np.where(has < most, 1, 2))
            ranked = np.lexsort((rows, -self._need[rows], urgency, group))
            taken = rows[ranked[nth(group[ranked]) < into[group[ranked]]]]
            self.owners.append(taken)
            self.racks.append(np.full(len(taken), rack, dtype=np.int64))
            self._need[taken] -= 1
            self._counts[taken, rack] += 1
            into -= np.bincount(self._group_of[taken], minlength=len(into))


def choose_brokers(brokers: Brokers, wanted: Ints, topics: Ints, owner: Ints, rack: Ints) -> Ints:
    """Choose brokers of a rack for new replicas in turns, so that a topic's replicas spread over many brokers.

    `wanted` is the number of new replicas that each broker gets. Racks are independent.
    """
    chosen = np.full(len(owner), -1, dtype=np.int64)
    for each in np.unique(rack).tolist():
        mine = np.flatnonzero(rack == each)
        takers = np.flatnonzero((brokers.rack_of == each) & (wanted > 0))
        amounts = wanted[takers]
        turn = np.arange(int(amounts.sum())) - np.repeat(np.cumsum(amounts) - amounts, amounts)
        places = np.repeat(takers, amounts)[np.argsort(turn, kind="stable")]
        chosen[mine[np.lexsort((owner[mine], topics[mine]))]] = places[: len(mine)]
    return chosen


def sound(some: Problem, replicas: Replicas, bounds: Bounds) -> Bools:
    """Tell for each partition whether it has its replication factor, on different brokers, spread over racks."""
    factor, total = some.wanted, len(some.broker_ids)
    counts = in_racks(some, replicas)
    different = np.unique(replicas.owners * total + replicas.brokers) // total
    doubled = replicas.counts - np.bincount(different, minlength=len(replicas))
    fits = (counts[:, :-1] >= bounds.least[factor]) & (counts[:, :-1] <= bounds.most[factor])
    good: Bools = (replicas.counts == factor) & (doubled == 0) & (counts[:, -1] == 0) & fits.all(axis=1)
    return good
