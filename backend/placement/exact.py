"""Exact search for small clusters: replicas such that leaders are balanced, too, with the fewest changes.

The flow that decides which replicas move ignores leaders: among placements of equal balance and equal moves it
takes any, and on few brokers leaders sometimes cannot be balanced on the one taken. Here OR-tools' constraint
solver searches all of them, beginning with the present solution. It is deterministic, and so is its time limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from ortools.sat.python import cp_model

from backend.placement.grouping import by_bytes
from backend.placement.load_levels import Bounds
from backend.placement.problem import Ints, Problem, Replicas

_CHOICES, _CHOICES_UNEVEN = 1_000, 10_000
"""Number of partitions times brokers up to which all placements are searched.

The first bound takes a fraction of a second; the second, for uneven leaders, some seconds. In larger clusters
leaders are hardly ever uneven, and changes hardly ever exceed the minimum.
"""
_DETERMINISTIC_SECONDS = 1.0

_Choice = Mapping[tuple[int, int], cp_model.IntVar]
"""Variables by partition and broker."""


def evenly_led(problem: Problem, placed: Replicas, leaders: Ints) -> tuple[Replicas, Ints]:
    """Return (replicas, leaders) of equal balance and no more moves; the given ones if none is better."""
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
    """All placements that satisfy the rules, are as balanced as the given one, and move no more."""

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
        """Return (replicas, leaders) of the best placement found."""
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
            # Replicas that stay keep their order, and new ones follow.
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
        """Return the cost: barred leaders first, then imbalance of leaders, then leader changes, then bytes."""
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
        # Each weight exceeds the sum of all lower terms.
        change = 1 + int(rank.max(initial=0)) * int(problem.wanted[self._free].sum())
        step = change * (count + 1)
        return moved + change * changes + step * uneven + step * 2 * (count + int(led.max())) ** 2 * barred

    def _squares(
        self, of: _Choice, besides: Ints, most: int, brokers: list[int] | None = None
    ) -> cp_model.LinearExpr:
        """Return the sum of squares of the brokers' counts, less the squares of what they have `besides`.

        `most` is an upper bound of each count.
        """
        found = []
        for b in self._usable if brokers is None else brokers:
            room = min(len(self._free), max(0, most - int(besides[b])))
            steps = [self._model.new_bool_var("") for _ in range(room)]
            self._model.add(sum(of[p, b] for p in self._free) == sum(steps))
            found += [(2 * (int(besides[b]) + at) + 1) * step for at, step in enumerate(steps)]
        return _sum(found)


def _sum(of: Iterable[cp_model.LinearExprT]) -> cp_model.LinearExpr:
    return cp_model.LinearExpr.sum(list(of))
