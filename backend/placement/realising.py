"""Replicas of partitions from a flow of groups: who loses which, and who gets what is new."""

from __future__ import annotations

import numpy as np

from backend.placement.grouping import Groups, in_racks, is_first
from backend.placement.moving import Flow
from backend.placement.problem import Bools, Ints, Problem, Replicas, starts_of
from backend.placement.shares import Bounds


def realise(problem: Problem, groups: Groups, bounds: Bounds, flow: Flow) -> Replicas:
    """Replicas of the groups' partitions, in their order: those that stay in the order of before, then the new
    ones.

    Where many partitions are one group some may come to have a broker or a rack twice: `sound` tells which.
    """
    now = problem.now.some(groups.partitions)
    owners = now.owners
    stays = _staying(problem, groups, flow, now)
    kept = Replicas(starts_of(np.bincount(owners[stays], minlength=len(now))), now.brokers[stays])
    owner, rack = _new_places(problem, groups, bounds, flow, kept)
    chosen = _brokers(problem, groups, flow, owner, rack)
    direct_owner = groups_first(groups)[flow.group]
    all_owners = np.concatenate([kept.owners, owner, direct_owner])
    all_brokers = np.concatenate([kept.brokers, chosen, flow.broker])
    order = np.argsort(all_owners, kind="stable")
    return Replicas(starts_of(np.bincount(all_owners, minlength=len(now))), all_brokers[order])


def groups_first(groups: Groups) -> Ints:
    """Of each group the first partition, as a row of `groups.partitions`."""
    first = np.zeros(len(groups.size), dtype=np.int64)
    first[groups.group_of[::-1]] = np.arange(len(groups.partitions) - 1, -1, -1)
    return first


def _staying(problem: Problem, groups: Groups, flow: Flow, now: Replicas) -> Bools:
    """Which replicas stay: of each holding as many as the flow says. Where there is a choice, those leave of
    partitions that lose nothing else, which find a rack most easily; then the smallest."""
    owners, brokers = now.owners, len(problem.broker_ids)
    stays: Bools = problem.is_usable[now.brokers]
    holdings = 2 * (groups.held_by * brokers + groups.holder) + groups.preferred
    order = np.argsort(holdings)
    leaving = (groups.held - flow.kept)[order]
    replicas = np.flatnonzero(stays)
    at = 2 * (groups.group_of[owners] * brokers + now.brokers) + is_first(now)
    holding = np.searchsorted(holdings[order], at[replicas])
    size = problem.size_bytes[groups.partitions]
    lost = now.counts - np.bincount(owners[replicas], minlength=len(now))
    rack = problem.rack_of[now.brokers]
    for each in range(len(problem.racks)):
        mine = replicas[(rack[replicas] == each) & (leaving[holding] > 0)]
        if not len(mine):
            continue
        of = np.searchsorted(replicas, mine)
        ranked = np.lexsort((mine, size[owners[mine]], lost[owners[mine]], holding[of]))
        sorted_holding = holding[of][ranked]
        going = mine[ranked[_nth(sorted_holding) < leaving[sorted_holding]]]
        stays[going] = False
        lost += np.bincount(owners[going], minlength=len(now))
    return stays


def _nth(ordered: Ints) -> Ints:
    """Of a sorted array, which one of its equals each element is."""
    found: Ints = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    return found


def _new_places(problem: Problem, groups: Groups, bounds: Bounds, flow: Flow, kept: Replicas) -> tuple[Ints, Ints]:
    """(rows of partitions, racks) of what is new by way of the pools: each rack's share of a group goes to those
    of it that need one there most."""
    first = groups_first(groups)
    were = in_racks(problem, problem.now.some(groups.partitions[first]))[:, :-1] > 0
    filling = _Filling(problem, groups, bounds, flow, kept)
    # First what comes back to racks that a group has been in: it can only go to those that have left them.
    for is_return in (True, False):
        left = np.where(were == is_return, flow.into_rack, 0)
        for rack in np.argsort(-left.sum(axis=0), kind="stable").tolist():
            filling.fill(rack, left[:, rack])
    return np.concatenate(filling.owners), np.concatenate(filling.racks)


class _Filling:
    """Gives racks to partitions that need replicas."""

    def __init__(self, problem: Problem, groups: Groups, bounds: Bounds, flow: Flow, kept: Replicas) -> None:
        self._group_of = groups.group_of
        self._counts = in_racks(problem, kept)[:, :-1]
        direct = np.bincount(flow.group, minlength=len(groups.size))
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
            taken = rows[ranked[_nth(group[ranked]) < into[group[ranked]]]]
            self.owners.append(taken)
            self.racks.append(np.full(len(taken), rack, dtype=np.int64))
            self._need[taken] -= 1
            self._counts[taken, rack] += 1
            into -= np.bincount(self._group_of[taken], minlength=len(into))


def _brokers(problem: Problem, groups: Groups, flow: Flow, owner: Ints, rack: Ints) -> Ints:
    """Brokers for new replicas: of a rack in turns, so that those of a topic come to many."""
    chosen = np.full(len(owner), -1, dtype=np.int64)
    topic = problem.topic_of[groups.partitions]
    for each in np.unique(rack).tolist():
        mine = np.flatnonzero(rack == each)
        takers = np.flatnonzero((problem.rack_of == each) & (flow.wanted > 0))
        amounts = flow.wanted[takers]
        turn = np.arange(int(amounts.sum())) - np.repeat(np.cumsum(amounts) - amounts, amounts)
        places = np.repeat(takers, amounts)[np.argsort(turn, kind="stable")]
        ranked = mine[np.lexsort((owner[mine], topic[owner[mine]]))]
        chosen[ranked] = places[: len(ranked)]
    return chosen


def sound(problem: Problem, partitions: Ints, replicas: Replicas, bounds: Bounds) -> Bools:
    """Whether each partition has as many replicas as it is to have, on different brokers, spread over racks."""
    factor = problem.wanted[partitions]
    counts = in_racks(problem, replicas)
    keys = replicas.owners * len(problem.broker_ids) + replicas.brokers
    doubled = np.bincount(replicas.owners, minlength=len(replicas)) - np.bincount(
        np.unique(keys) // len(problem.broker_ids), minlength=len(replicas)
    )
    fits = (counts[:, :-1] >= bounds.least[factor]) & (counts[:, :-1] <= bounds.most[factor])
    good: Bools = (replicas.counts == factor) & (doubled == 0) & (counts[:, -1] == 0) & fits.all(axis=1)
    return good
