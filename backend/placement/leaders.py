"""Which replica is the preferred one: as many of a broker's as of any other, with as few changes as that takes.

What it takes to know is little (`Totals`), and of the candidates mostly few take part in a choice (`Rules`), so
that a large cluster is asked in pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.placement.flows import Network
from backend.placement.problem import Bools, Brokers, Ints, Problem, Replicas

_MANY = 200_000
"""From so many candidates on a choice will do that is within a hundredth of what changes anyhow: of a million, one
more than the fewest was seen, and the fewest take longer than all the rest of a plan."""
_ROUNDS = 3
_WIDTH = 2
"""Levels next to the average at which brokers are expected; tried wider where that does not hold."""


@dataclass(frozen=True)
class Rules:
    """Who hands over to whom: brokers that lead too many to those that do not; from and to those that are stuck
    everybody does."""

    is_full: Bools
    """By broker: whether it leads more than it is to."""
    is_stuck: Bools
    """By broker."""


@dataclass(frozen=True)
class Candidates:
    """Who may lead which partition, one by one."""

    partitions: Ints
    """Numbers of the partitions, in order."""
    staying: Ints
    """Of each: who leads it now, and may go on; -1 for nobody."""
    owners: Ints
    """Of each candidate: the partition, by its place in `partitions`,"""
    brokers: Ints
    """and the broker."""

    @property
    def stays(self) -> Bools:
        """Of each candidate: whether it leads the partition now."""
        found: Bools = self.brokers == self.staying[self.owners]
        return found

    def taking_part(self, rules: Rules | None) -> Candidates:
        """Those that may change by such rules; None: all."""
        if rules is None:
            return self
        staying = self.staying
        is_over = (staying >= 0) & rules.is_full[staying]
        is_stuck = (staying >= 0) & rules.is_stuck[staying]
        takes = ~rules.is_full[self.brokers] & is_over[self.owners]
        takes |= is_stuck[self.owners] | rules.is_stuck[self.brokers] | (staying < 0)[self.owners]
        takes &= ~self.stays
        movable = (staying < 0) | (np.bincount(self.owners[takes], minlength=len(staying)) > 0)
        row = np.cumsum(movable) - 1
        used = movable[self.owners] & (self.stays | takes)
        return Candidates(self.partitions[movable], staying[movable], row[self.owners[used]], self.brokers[used])


@dataclass(frozen=True)
class Totals:
    """What is to be known of all partitions; sums."""

    count: int
    """Partitions that are asked about."""
    candidates: int
    kept: Ints
    """By broker: how many of them it leads now, and may go on to."""
    fixed: Ints
    """By broker: what it leads besides."""
    could: Ints
    """By broker: how many it is a candidate of."""

    @property
    def leaders(self) -> Ints:
        """Brokers that may lead anything."""
        return np.flatnonzero(self.could)

    @property
    def level(self) -> int:
        """Led by each of them, or one more."""
        return (self.count + int(self.fixed[self.leaders].sum())) // len(self.leaders)


Part = Callable[[Rules | None], Candidates]
"""The candidates of all pieces that take part by such rules."""


def choose_leaders(problem: Problem, replicas: Replicas) -> Ints:
    """The preferred broker of each partition, one of its replicas; -1 for a partition without any.

    Partitions that are fixed keep theirs. One of whose replicas none may lead is led by its first.
    """
    asked = candidates_of(problem, replicas, np.arange(len(replicas)))
    chosen = led_now(problem, replicas)
    partitions, brokers = balanced(totals_of(problem, asked, chosen), asked.taking_part)
    chosen[partitions] = brokers
    return chosen


def candidates_of(some: Problem, replicas: Replicas, partitions: Ints) -> Candidates:
    """Of the partitions that have a choice; `partitions`: their numbers."""
    asked = _is_asked(some, replicas)
    usable = some.may_lead[replicas.brokers] & asked[replicas.owners]
    owners, brokers = replicas.owners[usable], replicas.brokers[usable]
    staying = np.full(len(replicas), -1, dtype=np.int64)
    stays = brokers == some.now.firsts[owners]
    staying[owners[stays]] = brokers[stays]
    row = np.cumsum(asked) - 1
    return Candidates(partitions[asked], staying[asked], row[owners], brokers)


def totals_of(brokers: Brokers, asked: Candidates, led: Ints) -> Totals:
    """Of a piece whose partitions are numbered from 0: its candidates, and who leads each now."""
    total = len(brokers.broker_ids)
    others = np.delete(led, asked.partitions)
    return Totals(
        count=len(asked.partitions),
        candidates=len(asked.owners),
        kept=np.bincount(asked.staying[asked.staying >= 0], minlength=total).astype(np.int64),
        fixed=np.bincount(others[others >= 0], minlength=total).astype(np.int64),
        could=np.bincount(asked.brokers, minlength=total).astype(np.int64),
    )


def led_now(some: Problem, replicas: Replicas) -> Ints:
    """Who leads each partition unless that is changed: who does, or the first of the replicas."""
    old, firsts = some.now.firsts, replicas.firsts
    stays = np.zeros(len(replicas), dtype=bool)
    stays[replicas.owners[replicas.brokers == old[replicas.owners]]] = True
    return np.where(some.is_fixed | (stays & _is_asked(some, replicas)), old, firsts)


def _is_asked(some: Problem, replicas: Replicas) -> Bools:
    may = np.bincount(replicas.owners, some.may_lead[replicas.brokers], minlength=len(replicas)) > 0
    asked: Bools = ~some.is_fixed & may
    return asked


def balanced(totals: Totals, part: Part) -> tuple[Ints, Ints]:
    """(partitions, brokers): who is to lead what; others go on."""
    if not totals.count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    asked, chosen = _directly(totals, part) or _among_all(totals, part(None))
    return asked.partitions, chosen


def _among_all(totals: Totals, asked: Candidates) -> tuple[Candidates, Ints]:
    """With everybody handing over to everybody."""
    leaders, level = totals.leaders, totals.level
    width = _WIDTH
    while True:
        chosen = _flow(asked, totals.fixed, level, width)
        taken = np.bincount(chosen, minlength=len(totals.fixed))
        mine = (taken + totals.fixed)[leaders]
        # Beyond the levels that have prices of their own nobody asked what is more even.
        low = (mine <= level - width) & (totals.could > taken)[leaders]
        high = (mine > level + width) & (taken[leaders] > 0)
        if not (low | high).any():
            return asked, chosen
        width *= 4


def _directly(totals: Totals, part: Part) -> tuple[Candidates, Ints] | None:
    """By handing over from those that lead too many to those that lead too few, with others between only where it
    must be; None if that is not shown to be the best, or as good as. On a cluster that was even before it is, and
    much faster."""
    leaders, level, total = totals.leaders, totals.level, len(totals.fixed)
    kept = totals.kept + totals.fixed
    rest = totals.count + int(totals.fixed[leaders].sum()) - level * len(leaders)
    over = np.maximum(kept[leaders] - level, 0)
    unled = totals.count - int(totals.kept.sum())
    must = unled + int(over.sum()) - min(rest, int((over > 0).sum()))
    allowed = must + (must // 100 if totals.candidates > _MANY else 0)
    is_stuck = np.zeros(total, dtype=bool)
    for _ in range(_ROUNDS):
        asked = part(Rules(kept > level, is_stuck))
        fixed = kept - np.bincount(asked.staying[asked.staying >= 0], minlength=total)
        chosen = _flow(asked, fixed, level, _WIDTH) if len(asked.partitions) else asked.partitions
        loads = np.bincount(chosen, minlength=total) + fixed
        odd = leaders[(loads[leaders] > level + 1) | (loads[leaders] < level)]
        if int((chosen != asked.staying).sum()) > allowed:
            return None
        if not len(odd):
            return asked, chosen
        is_stuck[odd] = True
    return None


def _flow(asked: Candidates, fixed: Ints, level: int, width: int) -> Ints:
    """The most even choice with the fewest changes, as far as `width` levels around `level` say; `fixed`: by
    broker, what it leads besides."""
    total, count, leaders = len(fixed), len(asked.partitions), np.unique(asked.brokers)
    sink = count + total
    uneven = 2 * (total + 2)
    network = Network()
    network.supply(np.arange(count), 1)
    network.supply(sink, -count)
    arcs = network.add(asked.owners, count + asked.brokers, 1, ~asked.stays)
    has = fixed[leaders]
    network.add(count + leaders, sink, np.maximum(level - width - has, 0), 0)
    for rank, step in enumerate(range(level - width + 1, level + width + 1), 1):
        network.add(count + leaders, sink, (has < step).astype(np.int64), rank * uneven)
    network.add(count + leaders, sink, count, (2 * width + 1) * uneven)
    network.solve()
    leads = network.flow(arcs) > 0
    chosen = np.zeros(count, dtype=np.int64)
    chosen[asked.owners[leads]] = asked.brokers[leads]
    return chosen
