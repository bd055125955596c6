"""Small clusters: replicas such that leaders are even, too, with as few changes as that takes.

The flow that says which replicas move knows nothing of leaders: among placements that are as even and move as
little it takes any, and on a few brokers it happens that leaders cannot be even on that one. Here all of them are
asked about, by OR-tools' constraint solver, which begins with what there is. It is deterministic, and so is its
limit of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from ortools.sat.python import cp_model

from backend.placement.grouping import by_bytes
from backend.placement.problem import Ints, Problem, Replicas
from backend.placement.shares import Bounds

_CHOICES, _CHOICES_UNEVEN = 1_000, 10_000
"""Partitions times brokers up to which all placements are asked about: a fraction of a second, or some seconds
where leaders are uneven. In larger clusters they hardly ever are, and changes hardly ever more than the fewest."""
_DETERMINISTIC_SECONDS = 1.0

_Choice = Mapping[tuple[int, int], cp_model.IntVar]
"""By partition and broker."""


def evenly_led(problem: Problem, placed: Replicas, leaders: Ints) -> tuple[Replicas, Ints]:
    """(replicas, their leaders): as even and with as few moves as those that are given; these, if there is none
    better, or it is not known."""
    free, usable = np.flatnonzero(~problem.is_fixed), np.flatnonzero(problem.is_usable)
    is_even = _is_even(problem, leaders, usable)
    is_best = is_even and bool((leaders == problem.now.firsts).all())
    if is_best or not 0 < len(free) * len(usable) <= (_CHOICES if is_even else _CHOICES_UNEVEN):
        return placed, leaders
    return _Placements(problem, placed, leaders, free.tolist(), usable.tolist()).best()


def _is_even(problem: Problem, leaders: Ints, usable: Ints) -> bool:
    leads = np.bincount(leaders[leaders >= 0], minlength=len(problem.broker_ids))
    mine = leads[usable[problem.may_lead[usable]]]
    return len(mine) > 0 and int(mine.max() - mine.min()) <= 1 and int(leads.sum() - mine.sum()) == 0


class _Placements:
    """All that keep the rules, are as even as one of them and move as little."""

    def __init__(
        self, problem: Problem, placed: Replicas, leaders: Ints, free: list[int], usable: list[int]
    ) -> None:
        self._problem, self._placed, self._leaders = problem, placed, leaders
        self._free, self._usable = free, usable
        self._model = cp_model.CpModel()
        self._has = {(p, b): self._model.new_bool_var("") for p in free for b in usable}
        self._leads = {pair: self._model.new_bool_var("") for pair in self._has}
        self._now = {(p, b) for p in free for b in problem.now.of(p).tolist()}
        for (p, b), has in self._has.items():
            self._model.add_hint(has, bool((placed.of(p) == b).any()))
            self._model.add_hint(self._leads[p, b], bool(leaders[p] == b))
            self._model.add_implication(self._leads[p, b], has)
        self._keep_rules()
        self._stay_as_good()
        self._model.minimize(self._cost())

    def best(self) -> tuple[Replicas, Ints]:
        """(replicas, their leaders)"""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = _DETERMINISTIC_SECONDS
        if solver.solve(self._model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return self._placed, self._leaders
        leaders = self._leaders.copy()
        rows = []
        for p in self._free:
            chosen = [b for b in self._usable if solver.boolean_value(self._has[p, b])]
            # Those that stay in the order of before, then the new ones.
            before = [b for b in self._problem.now.of(p).tolist() if b in chosen]
            rows.append(before + [b for b in chosen if b not in before])
            (leaders[p],) = (b for b in self._usable if solver.boolean_value(self._leads[p, b]))
        return self._placed.replaced(np.array(self._free), Replicas.listed(rows)), leaders

    def _keep_rules(self) -> None:
        problem = self._problem
        bounds = Bounds.of(problem.rack_sizes, np.unique(problem.wanted[self._free]))
        for p in self._free:
            factor = int(problem.wanted[p])
            self._model.add(sum(self._has[p, b] for b in self._usable) == factor)
            self._model.add(sum(self._leads[p, b] for b in self._usable) == 1)
            for rack in range(len(problem.racks)):
                there = [self._has[p, b] for b in self._usable if problem.rack_of[b] == rack]
                least, most = int(bounds.least[factor, rack]), int(bounds.most[factor, rack])
                self._model.add_linear_constraint(sum(there), least, most)

    def _stay_as_good(self) -> None:
        mine = self._problem.loads(self._placed.some(np.array(self._free)))
        loads = self._problem.loads(self._placed)
        limit = int((loads * loads - (loads - mine) * (loads - mine))[self._usable].sum())
        self._model.add(self._squares(self._has, loads - mine, int(loads.max())) <= limit)
        moves = sum((p, b) not in self._now for p in self._free for b in self._placed.of(p).tolist())
        self._model.add(sum(has for pair, has in self._has.items() if pair not in self._now) <= moves)

    def _cost(self) -> cp_model.LinearExpr:
        """Leaders where there are to be none, then how uneven they are, then those that change, then bytes."""
        problem, count = self._problem, len(self._free)
        rank = by_bytes(problem.size_bytes)
        moved = _sum(has * int(rank[pair[0]]) for pair, has in self._has.items() if pair not in self._now)
        firsts = problem.now.firsts
        changes = _sum(leads for (p, b), leads in self._leads.items() if firsts[p] != b)
        barred = _sum(leads for (_, b), leads in self._leads.items() if not problem.may_lead[b])
        led = np.bincount(self._leaders[self._leaders >= 0], minlength=len(problem.broker_ids))
        besides = led - np.bincount(self._leaders[self._free], minlength=len(led))
        may = [b for b in self._usable if problem.may_lead[b]]
        uneven = self._squares(self._leads, besides, int(led.max()), may)
        # Each so much heavier than all that comes after it.
        change = 1 + int(rank.max(initial=0)) * int(problem.wanted[self._free].sum())
        step = change * (count + 1)
        return moved + change * changes + step * uneven + step * 2 * (count + int(led.max())) ** 2 * barred

    def _squares(
        self, of: _Choice, besides: Ints, most: int, brokers: list[int] | None = None
    ) -> cp_model.LinearExpr:
        """What the squares of brokers' sums come to, beyond those of what they have `besides`; `most`: none comes
        to more."""
        found = []
        for b in self._usable if brokers is None else brokers:
            room = min(len(self._free), max(0, most - int(besides[b])))
            steps = [self._model.new_bool_var("") for _ in range(room)]
            self._model.add(sum(of[p, b] for p in self._free) == sum(steps))
            found += [(2 * (int(besides[b]) + at) + 1) * step for at, step in enumerate(steps)]
        return _sum(found)


def _sum(of: Iterable[cp_model.LinearExprT]) -> cp_model.LinearExpr:
    return cp_model.LinearExpr.sum(list(of))
