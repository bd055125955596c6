"""Which replica is the preferred one: as many of a broker's as of any other, with as few changes as that takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.flows import Network
from backend.placement.problem import Bools, Ints, Problem, Replicas

_MANY = 200_000
"""From so many candidates on a choice that is within a thousandth of the fewest changes will do."""
_ROUNDS = 3
_WIDTH = 2
"""Levels next to the average at which brokers are expected; tried wider where that does not hold."""


def choose_leaders(problem: Problem, replicas: Replicas) -> Ints:
    """The preferred broker of each partition, one of its replicas; -1 for a partition without any.

    Partitions that are fixed keep theirs. One of whose replicas none may lead is led by its first.
    """
    old = problem.now.firsts
    free = ~problem.is_fixed & (replicas.counts > 0)
    may = problem.may_lead[replicas.brokers]
    led_by_any = np.bincount(replicas.owners, may, minlength=len(replicas)) > 0
    free &= led_by_any
    chosen = np.where(problem.is_fixed, old, replicas.firsts)
    fixed = np.bincount(chosen[~free & (chosen >= 0)], minlength=len(problem.broker_ids)).astype(np.int64)
    some = np.flatnonzero(free)
    mine = replicas.some(some)
    owners, brokers = mine.owners, mine.brokers
    usable = problem.may_lead[brokers]
    stays = brokers == old[some][owners]
    chosen[some] = _balanced(_Question(owners[usable], brokers[usable], stays[usable], fixed, len(some)))
    return chosen


@dataclass(frozen=True)
class _Question:
    """Who may lead which partition: candidates, one by one, of partitions 0 to `count`."""

    owners: Ints
    brokers: Ints
    stays: Bools
    """Whether it leads the partition now."""
    fixed: Ints
    """By broker: what it leads besides."""
    count: int

    @property
    def leaders(self) -> Ints:
        """Brokers that may lead anything."""
        return np.unique(self.brokers)


def _balanced(asked: _Question) -> Ints:
    """The broker of each partition."""
    if not asked.count:
        return np.zeros(0, np.int64)
    found = _directly(asked)
    if found is not None:
        return found
    leaders = asked.leaders
    level = (asked.count + int(asked.fixed[leaders].sum())) // len(leaders)
    width = _WIDTH
    while True:
        chosen = _flow(asked, level, width)
        taken = np.bincount(chosen, minlength=len(asked.fixed))
        mine = (taken + asked.fixed)[leaders]
        # Beyond the levels that have prices of their own nobody asked what is more even.
        low = (mine <= level - width) & _could_rise(asked, leaders, mine)
        high = (mine > level + width) & (taken[leaders] > 0)
        if not (low | high).any():
            return chosen
        width *= 4


def _directly(asked: _Question) -> Ints | None:
    """By handing over from those that lead too many to those that lead too few, with others between only where it
    must be; None if that is not shown to be the best, or as good as. On a cluster that was even before it is, and
    much faster."""
    leaders, total = asked.leaders, len(asked.fixed)
    staying = np.full(asked.count, -1, dtype=np.int64)
    staying[asked.owners[asked.stays]] = asked.brokers[asked.stays]
    kept = np.bincount(staying[staying >= 0], minlength=total) + asked.fixed
    level, rest = divmod(asked.count + int(asked.fixed[leaders].sum()), len(leaders))
    over = np.maximum(kept[leaders] - level, 0)
    must = int((staying < 0).sum() + over.sum() - min(rest, int((over > 0).sum())))
    allowed = must + (must // 1000 if len(asked.owners) > _MANY else 0)
    stuck = np.zeros(total, dtype=bool)
    for _ in range(_ROUNDS):
        chosen = _handed_over(asked, staying, kept, level, stuck)
        loads = np.bincount(chosen, minlength=total) + asked.fixed
        odd = leaders[(loads[leaders] > level + 1) | (loads[leaders] < level)]
        if int((chosen != staying).sum()) > allowed:
            return None
        if not len(odd):
            return chosen
        stuck[odd] = True
    return None


def _handed_over(asked: _Question, staying: Ints, kept: Ints, level: int, stuck: Bools) -> Ints:
    """The most even choice if only those hand over that lead too many, to those that lead too few; brokers that
    are stuck may do so from and to everybody."""
    is_over = (staying >= 0) & (kept[staying] > level)
    is_stuck = (staying >= 0) & stuck[staying]
    takes = (kept[asked.brokers] <= level) & is_over[asked.owners]
    takes |= is_stuck[asked.owners] | stuck[asked.brokers] | (staying < 0)[asked.owners]
    takes &= ~asked.stays
    movable = (staying < 0) | (np.bincount(asked.owners[takes], minlength=asked.count) > 0)
    some = np.flatnonzero(movable)
    if not len(some):
        return staying
    row = np.full(asked.count, -1, dtype=np.int64)
    row[some] = np.arange(len(some))
    used = movable[asked.owners] & (asked.stays | takes)
    fixed = asked.fixed + np.bincount(staying[~movable], minlength=len(asked.fixed))
    part = _Question(row[asked.owners[used]], asked.brokers[used], asked.stays[used], fixed, len(some))
    chosen = staying.copy()
    chosen[some] = _flow(part, level, _WIDTH)
    return chosen


def _could_rise(asked: _Question, leaders: Ints, loads: Ints) -> Bools:
    """Whether brokers have replicas that they do not lead."""
    could = np.bincount(asked.brokers, minlength=len(asked.fixed))[leaders]
    found: Bools = could > loads - asked.fixed[leaders]
    return found


def _flow(asked: _Question, level: int, width: int) -> Ints:
    """The most even choice with the fewest changes, as far as `width` levels around `level` say."""
    total, count, leaders = len(asked.fixed), asked.count, asked.leaders
    sink = count + total
    uneven = 2 * (total + 2)
    network = Network()
    network.supply(np.arange(count), 1)
    network.supply(sink, -count)
    arcs = network.add(asked.owners, count + asked.brokers, 1, ~asked.stays)
    has = asked.fixed[leaders]
    network.add(count + leaders, sink, np.maximum(level - width - has, 0), 0)
    for rank, step in enumerate(range(level - width + 1, level + width + 1), 1):
        network.add(count + leaders, sink, (has < step).astype(np.int64), rank * uneven)
    network.add(count + leaders, sink, count, (2 * width + 1) * uneven)
    network.solve()
    leads = network.flow(arcs) > 0
    chosen = np.zeros(count, dtype=np.int64)
    chosen[asked.owners[leads]] = asked.brokers[leads]
    return chosen
