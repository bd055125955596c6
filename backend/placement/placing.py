"""New replicas for all partitions that may move, and the bound that no plan can be below."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from backend.placement.crowding import relieved
from backend.placement.flows import NoFlow
from backend.placement.grouping import alone, is_crowded, kinds_of, together
from backend.placement.moving import least_moves, squares_of
from backend.placement.problem import Brokers, Ints, Problem, Replicas
from backend.placement.realising import realise, sound
from backend.placement.shares import Bounds

ARCS_ALONE = 600_000
"""Up to so many arcs partitions are taken one by one: some seconds."""
AGAIN = (0, ARCS_ALONE // 8, ARCS_ALONE)
"""Rounds of mending: of how many arcs' worth of other partitions are placed again besides."""


@dataclass(frozen=True)
class Placed:
    """Which brokers each partition has; in no order yet."""

    problem: Problem
    """What was asked; less what has to leave crowded racks, if partitions there are too many to be taken one by
    one."""
    replicas: Replicas
    lower_bound: int
    """Fewer replicas cannot be moved."""
    is_alone: bool
    """Whether partitions were taken one by one."""


def place(problem: Problem, most_arcs: int = ARCS_ALONE) -> Placed:
    """As few moves as evenness and racks allow. `problem.is_fixed` has those that cannot be placed."""
    free = np.flatnonzero(~problem.is_fixed)
    some = problem.some(free)
    bounds = Bounds.of(problem.rack_sizes, np.unique(some.wanted))
    fixed = problem.loads(problem.now) - problem.loads(some.now)
    arcs = arcs_of(problem, bounds, np.bincount(some.wanted, minlength=1), len(some.now.brokers))
    least = None
    if arcs > most_arcs and _arcs_of_crowded(some, free, bounds) > most_arcs:
        grouped = together(some, free, bounds, apart=False)
        flow = least_moves(problem, grouped.groups, bounds, fixed)
        least = flow.moves
        some = replace(some, now=relieved(some, grouped, bounds, flow))
        problem = replace(problem, now=problem.now.replaced(free, some.now))
    grouped = alone(some) if arcs <= most_arcs else together(some, free, bounds)
    flow = least_moves(problem, grouped.groups, bounds, fixed)
    placed = realise(some, grouped, bounds, flow)
    left_over = ~sound(some, placed, bounds)
    for most in AGAIN:
        bad = ~sound(some, placed, bounds)
        if not bad.any() and squares_of(problem, fixed + problem.loads(placed)) == flow.squares:
            break
        # What is left over of groups is placed once more, one by one, and others with it where it takes them.
        each = each_of(arcs, len(free), most)
        rows = np.flatnonzero(left_over | (free % each == 0) if each else left_over)
        loads = fixed + problem.loads(placed)
        again = place_again(some.some(rows), placed.some(rows), bounds, loads)
        placed = placed if again is None else placed.replaced(rows, again)
    else:
        bad = ~sound(some, placed, bounds)
        if bad.any():
            raise ArithmeticError(f"{int(bad.sum())} partitions could not be placed")
    bound = flow.moves if least is None else least
    return Placed(problem, problem.now.replaced(free, placed), bound, arcs <= most_arcs)


def arcs_of(brokers: Brokers, bounds: Bounds, by_factor: Ints, replicas: int) -> int:
    """That it takes to look at partitions one by one: so many by replication factor, with so many replicas."""
    each = np.where(bounds.most == 1, 2, np.where(bounds.most > 1, 1 + brokers.rack_sizes, 0)).sum(axis=1)
    return int(each @ by_factor) + replicas


def _arcs_of_crowded(some: Problem, partitions: Ints, bounds: Bounds) -> int:
    kinds = kinds_of(some, partitions, bounds, apart=False)
    return arcs_of_crowded(some, bounds, kinds, np.ones(len(kinds), np.int64))


def arcs_of_crowded(brokers: Brokers, bounds: Bounds, kinds: Ints, sizes: Ints) -> int:
    """That it takes to look at those one by one that have more in a rack than they may; `kinds` and `sizes`: which
    partitions there are (`kinds_of`), and how many of each."""
    crowded = is_crowded(kinds, bounds)
    kinds, sizes = kinds[crowded], sizes[crowded]
    by_factor = np.bincount(kinds[:, 0], sizes, len(bounds.most)).astype(np.int64)
    return arcs_of(brokers, bounds, by_factor, int(kinds[:, 1:-1].sum(axis=1) @ sizes))


def each_of(arcs: int, partitions: int, most_arcs: int) -> int:
    """Each how many-th partition, by its number, is placed again with those that have to be, if all partitions
    take so many arcs and the others may take so many; 0: none."""
    return partitions * max(1, arcs // max(1, partitions)) // most_arcs + 1 if most_arcs else 0


def place_again(some: Problem, placed: Replicas, bounds: Bounds, loads: Ints) -> Replicas | None:
    """Place partitions one by one, all others being where they are meant to be: `loads` is what brokers have by
    then, with what is `placed` of these. None if there is no way."""
    grouped = alone(some)
    try:
        flow = least_moves(some, grouped.groups, bounds, loads - some.loads(placed))
    except NoFlow:
        return None
    return realise(some, grouped, bounds, flow)
