"""Replicas of partitions from a flow of groups: who loses which, and who gets what is new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.grouping import Grouped, in_racks
from backend.placement.moving import Flow
from backend.placement.problem import Bools, Brokers, Ints, Problem, Replicas, nth, starts_of
from backend.placement.shares import Bounds
from backend.placement.staying import staying


@dataclass(frozen=True)
class Opened:
    """What partitions keep, and the racks in which each gets something new."""

    kept: Replicas
    owner: Ints
    """Of each new replica whose broker is not chosen yet: the partition,"""
    rack: Ints
    """and the rack."""
    direct: Ints
    """Of each new replica whose broker the flow has chosen: the partition,"""
    broker: Ints
    """and the broker."""

    def loads(self, brokers: Brokers) -> Ints:
        """By broker, what it has of all that is known yet."""
        return brokers.loads(self.kept) + np.bincount(self.broker, minlength=len(brokers.broker_ids))

    def filled(self, chosen: Ints) -> Replicas:
        """With brokers for what is new: those that stay in the order of before, then the new ones."""
        owners = np.concatenate([self.kept.owners, self.owner, self.direct])
        brokers = np.concatenate([self.kept.brokers, chosen, self.broker])
        counts = np.bincount(owners, minlength=len(self.kept))
        return Replicas(starts_of(counts), brokers[np.argsort(owners, kind="stable")])


def realise(some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow) -> Replicas:
    """Replicas of the groups' partitions.

    Where many partitions are one group some may come to have a broker or a rack twice: `sound` tells which.
    """
    opened = open_places(some, grouped, bounds, flow)
    topics = some.topic_of[opened.owner]
    wanted = flow.loads - opened.loads(some)
    return opened.filled(choose_brokers(some, wanted, topics, opened.owner, opened.rack))


def open_places(some: Problem, grouped: Grouped, bounds: Bounds, flow: Flow) -> Opened:
    """Who loses what, and who gets something new in which rack. Groups do not depend on each other: a part of the
    partitions, with all of each group's or none, comes to the same."""
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
    """(partitions, racks) of what is new and has no broker yet: each rack's share of a group goes to those of it
    that need one there most; where racks are shared, to those that have room there."""
    were = grouped.groups.has_been_in(some)
    sharing = np.asarray(grouped.groups.sharing(bounds).any(axis=1), bool)
    filling = _Filling(some, grouped, bounds, flow, kept)
    # First what comes back to racks that a group has been in: it can only go to those that have left them.
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
    """Gives racks to partitions that need replicas."""

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
        """Give a rack to so many partitions of each group."""
        into = into.copy()
        # A partition gets one each time; more than one only where racks are fewer than replicas.
        while True:
            rows = np.flatnonzero((self._need > 0) & (into[self._group_of] > 0))
            if not len(rows):
                return
            group, has = self._group_of[rows], self._counts[rows, rack]
            # First who must, last who has as much as it may have there; else whoever has most to find yet.
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
    """Brokers for new replicas, of a rack in turns, so that those of a topic come to many; `wanted`: how many each
    broker gets. Racks do not depend on each other."""
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
    """Whether each partition has as many replicas as it is to have, on different brokers, spread over racks."""
    factor, total = some.wanted, len(some.broker_ids)
    counts = in_racks(some, replicas)
    different = np.unique(replicas.owners * total + replicas.brokers) // total
    doubled = replicas.counts - np.bincount(different, minlength=len(replicas))
    fits = (counts[:, :-1] >= bounds.least[factor]) & (counts[:, :-1] <= bounds.most[factor])
    good: Bools = (replicas.counts == factor) & (doubled == 0) & (counts[:, -1] == 0) & fits.all(axis=1)
    return good
