"""The choice of preferred replicas: leaders balanced over brokers, with as few changes as that takes.

The choice needs little information (`Totals`), and usually few of the candidates take part in it (`Rules`), so
that a large cluster is queried in pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.placement.flows import Network
from backend.placement.problem import Bools, Brokers, Ints, Problem, Replicas

_MANY = 200_000
"""Number of candidates above which a choice within a hundredth of the unavoidable changes is good enough.

With a million candidates one change more than the minimum was seen, and finding the minimum takes longer than all
the rest of a plan.
"""
_ROUNDS = 3
_WIDTH = 2
"""Number of levels around the average at which brokers are expected; widened where that does not hold."""


@dataclass(frozen=True)
class Rules:
    """The transfers of leadership that are considered.

    Brokers that lead too many partitions hand over to those that do not. Brokers that are stuck exchange with all.
    """

    is_full: Bools
    """Mask of the brokers that lead more than their share."""
    is_stuck: Bools
    """Mask of the brokers that direct transfers did not bring to the level."""


@dataclass(frozen=True)
class Candidates:
    """The brokers that may lead each partition."""

    partitions: Ints
    """Numbers of the partitions, in order."""
    staying: Ints
    """Broker that leads each partition now and may continue; -1 if there is none."""
    owners: Ints
    """By candidate: the partition, as an index into `partitions`."""
    brokers: Ints
    """Broker of each candidate."""

    @property
    def stays(self) -> Bools:
        """Tell for each candidate whether it leads the partition now."""
        found: Bools = self.brokers == self.staying[self.owners]
        return found

    def taking_part(self, rules: Rules | None) -> Candidates:
        """Return the candidates that may change under these rules; all for None."""
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
    """Figures of all partitions; sums, so that pieces can be added up."""

    count: int
    """Partitions that have a choice."""
    candidates: int
    kept: Ints
    """Number of these partitions that each broker leads now and may continue to lead."""
    fixed: Ints
    """Number of other partitions that each broker leads."""
    could: Ints
    """Number of partitions that each broker is a candidate of."""

    @property
    def leaders(self) -> Ints:
        """Return the brokers that may lead anything."""
        return np.flatnonzero(self.could)

    @property
    def level(self) -> int:
        """Return the number of partitions that each leader gets at least; some lead one more."""
        return (self.count + int(self.fixed[self.leaders].sum())) // len(self.leaders)


Part = Callable[[Rules | None], Candidates]
"""Function that returns the candidates of all pieces that take part under these rules."""


def choose_leaders(problem: Problem, replicas: Replicas) -> Ints:
    """Choose the preferred broker of each partition, one of its replicas; -1 for a partition without replicas.

    Partitions that are fixed keep theirs. If no replica of a partition may lead, its first one does.
    """
    choices = candidates_of(problem, replicas, np.arange(len(replicas)))
    chosen = led_now(problem, replicas)
    partitions, brokers = balanced(totals_of(problem, choices, chosen), choices.taking_part)
    chosen[partitions] = brokers
    return chosen


def candidates_of(some: Problem, replicas: Replicas, partitions: Ints) -> Candidates:
    """Return the candidates of the partitions that have a choice; `partitions` are their numbers."""
    has_choice = _has_choice(some, replicas)
    usable = some.may_lead[replicas.brokers] & has_choice[replicas.owners]
    owners, brokers = replicas.owners[usable], replicas.brokers[usable]
    staying = np.full(len(replicas), -1, dtype=np.int64)
    stays = brokers == some.now.firsts[owners]
    staying[owners[stays]] = brokers[stays]
    row = np.cumsum(has_choice) - 1
    return Candidates(partitions[has_choice], staying[has_choice], row[owners], brokers)


def totals_of(brokers: Brokers, choices: Candidates, led: Ints) -> Totals:
    """Sum up a piece whose partitions are numbered from 0, from its candidates and its present leaders."""
    total = len(brokers.broker_ids)
    others = np.delete(led, choices.partitions)
    return Totals(
        count=len(choices.partitions),
        candidates=len(choices.owners),
        kept=np.bincount(choices.staying[choices.staying >= 0], minlength=total).astype(np.int64),
        fixed=np.bincount(others[others >= 0], minlength=total).astype(np.int64),
        could=np.bincount(choices.brokers, minlength=total).astype(np.int64),
    )


def led_now(some: Problem, replicas: Replicas) -> Ints:
    """Return the leader of each partition without any change: the present one, or the first of the replicas."""
    old, firsts = some.now.firsts, replicas.firsts
    stays = np.zeros(len(replicas), dtype=bool)
    stays[replicas.owners[replicas.brokers == old[replicas.owners]]] = True
    return np.where(some.is_fixed | (stays & _has_choice(some, replicas)), old, firsts)


def _has_choice(some: Problem, replicas: Replicas) -> Bools:
    may = np.bincount(replicas.owners, some.may_lead[replicas.brokers], minlength=len(replicas)) > 0
    has_choice: Bools = ~some.is_fixed & may
    return has_choice


def balanced(totals: Totals, part: Part) -> tuple[Ints, Ints]:
    """Choose leaders, and return (partitions, brokers) of those with a choice; all others are unchanged."""
    if not totals.count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    choices, chosen = _directly(totals, part) or _among_all(totals, part(None))
    return choices.partitions, chosen


def _among_all(totals: Totals, choices: Candidates) -> tuple[Candidates, Ints]:
    """Choose leaders with transfers between all brokers."""
    leaders, level = totals.leaders, totals.level
    width = _WIDTH
    while True:
        chosen = _flow(choices, totals.fixed, level, width)
        taken = np.bincount(chosen, minlength=len(totals.fixed))
        mine = (taken + totals.fixed)[leaders]
        # Levels outside `width` have no price of their own, so that the flow did not optimize balance there.
        low = (mine <= level - width) & (totals.could > taken)[leaders]
        high = (mine > level + width) & (taken[leaders] > 0)
        if not (low | high).any():
            return choices, chosen
        width *= 4


def _directly(totals: Totals, part: Part) -> tuple[Candidates, Ints] | None:
    """Choose leaders by transfers from brokers that lead too many to those that lead too few.

    Other brokers take part only where necessary. Returns None if the result is not proven to be the best, or as
    good as that. On a cluster that was balanced before it is, and much faster.
    """
    leaders, level, total = totals.leaders, totals.level, len(totals.fixed)
    kept = totals.kept + totals.fixed
    rest = totals.count + int(totals.fixed[leaders].sum()) - level * len(leaders)
    over = np.maximum(kept[leaders] - level, 0)
    unled = totals.count - int(totals.kept.sum())
    must = unled + int(over.sum()) - min(rest, int((over > 0).sum()))
    allowed = must + (must // 100 if totals.candidates > _MANY else 0)
    is_stuck = np.zeros(total, dtype=bool)
    for _ in range(_ROUNDS):
        choices = part(Rules(kept > level, is_stuck))
        fixed = kept - np.bincount(choices.staying[choices.staying >= 0], minlength=total)
        chosen = _flow(choices, fixed, level, _WIDTH) if len(choices.partitions) else choices.partitions
        loads = np.bincount(chosen, minlength=total) + fixed
        odd = leaders[(loads[leaders] > level + 1) | (loads[leaders] < level)]
        if int((chosen != choices.staying).sum()) > allowed:
            return None
        if not len(odd):
            return choices, chosen
        is_stuck[odd] = True
    return None


def _flow(choices: Candidates, fixed: Ints, level: int, width: int) -> Ints:
    """Compute the most balanced choice with the fewest changes, within `width` levels around `level`.

    `fixed` is, by broker, the number of partitions that it leads besides.
    """
    total, count, leaders = len(fixed), len(choices.partitions), np.unique(choices.brokers)
    sink = count + total
    uneven = 2 * (total + 2)
    network = Network()
    network.supply(np.arange(count), 1)
    network.supply(sink, -count)
    arcs = network.add(choices.owners, count + choices.brokers, 1, ~choices.stays)
    has = fixed[leaders]
    network.add(count + leaders, sink, np.maximum(level - width - has, 0), 0)
    for rank, step in enumerate(range(level - width + 1, level + width + 1), 1):
        network.add(count + leaders, sink, (has < step).astype(np.int64), rank * uneven)
    network.add(count + leaders, sink, count, (2 * width + 1) * uneven)
    network.solve()
    leads = network.flow(arcs) > 0
    chosen = np.zeros(count, dtype=np.int64)
    chosen[choices.owners[leads]] = choices.brokers[leads]
    return chosen
