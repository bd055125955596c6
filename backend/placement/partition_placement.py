"""New replicas for all partitions that may move, and the lower bound of moves for any plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from backend.placement.crowded_racks import relieved
from backend.placement.flows import NoFlow
from backend.placement.group_placement import realise, sound
from backend.placement.grouping import alone, is_crowded, kinds_of, together
from backend.placement.load_levels import Bounds
from backend.placement.move_flow import least_moves, squares_of
from backend.placement.problem import Brokers, Ints, Problem, Replicas

ARCS_ALONE = 600_000
"""Number of arcs up to which partitions are placed one by one, which takes some seconds."""
AGAIN = (0, ARCS_ALONE // 8, ARCS_ALONE)
"""Rounds of repair, given by the number of arcs of other partitions that are placed again as well."""


@dataclass(frozen=True)
class Placed:
    """The brokers of each partition; their order is not decided yet."""

    problem: Problem
    """The problem that was solved.

    It lacks the replicas that must leave crowded racks if the partitions there are too many to be placed one by
    one.
    """
    replicas: Replicas
    lower_bound: int
    """Number of replicas that any plan must move."""
    is_even: bool
    """True if no placement is more balanced; otherwise the bound holds for any placement, balanced or not."""
    is_alone: bool
    """True if partitions were placed one by one."""


def place(problem: Problem, most_arcs: int = ARCS_ALONE) -> Placed:
    """Place partitions with as few moves as balance and racks allow; partitions in `problem.is_fixed` stay."""
    free = np.flatnonzero(~problem.is_fixed)
    some = problem.some(free)
    bounds = Bounds.of(problem.rack_sizes, np.unique(some.wanted))
    fixed = problem.loads(problem.now) - problem.loads(some.now)
    arcs = arcs_of(problem, bounds, np.bincount(some.wanted, minlength=1), len(some.now.brokers))
    kinds, first = kinds_of(some, free, bounds, apart=False), None
    one_each = np.ones(len(free), dtype=np.int64)
    if arcs > most_arcs and arcs_of_crowded(problem, bounds, kinds, one_each) > most_arcs:
        grouped = together(some, free, bounds, apart=False)
        first = least_moves(problem, grouped.groups, bounds, fixed)
        some = replace(some, now=relieved(some, grouped, bounds, first))
        problem = replace(problem, now=problem.now.replaced(free, some.now))
    grouped = alone(some) if arcs <= most_arcs else together(some, free, bounds)
    flow = least_moves(problem, grouped.groups, bounds, fixed)
    placed = _mended(some, free, bounds, fixed, realise(some, grouped, bounds, flow), flow.squares, arcs)
    first = flow if first is None else first
    is_even = squares_of(problem, fixed + problem.loads(placed)) == first.squares
    bound = first.moves if is_even else unavoidable_moves(bounds, kinds, one_each)
    return Placed(problem, problem.now.replaced(free, placed), bound, is_even, arcs <= most_arcs)


def _mended(
    some: Problem, partitions: Ints, bounds: Bounds, fixed: Ints, placed: Replicas, squares: int, arcs: int
) -> Replicas:
    """Place once more, one by one, what groups left invalid, with other partitions where necessary."""
    left_over = ~sound(some, placed, bounds)
    bad = int(left_over.sum())
    for most in AGAIN:
        loads = fixed + some.loads(placed)
        if not bad and squares_of(some, loads) == squares:
            return placed
        each = each_of(arcs, len(partitions), most)
        rows = np.flatnonzero(left_over | (partitions % each == 0) if each else left_over)
        again = place_again(some.some(rows), placed.some(rows), bounds, loads)
        placed = placed if again is None else placed.replaced(rows, again)
        bad = int((~sound(some.some(rows), placed.some(rows), bounds)).sum())
    if bad:
        raise ArithmeticError(f"{bad} partitions could not be placed")
    return placed


def unavoidable_moves(bounds: Bounds, kinds: Ints, sizes: Ints) -> int:
    """Count the replicas that partitions lack, or have on unusable brokers or beyond a rack's maximum.

    `kinds` and `sizes` are the kinds of partitions (`kinds_of`) and how many there are of each.
    """
    factor = kinds[:, 0]
    stays = np.minimum(kinds[:, 1:-2], bounds.most[factor]).sum(axis=1)
    return int((factor - np.minimum(stays, factor)) @ sizes)


def arcs_of(brokers: Brokers, bounds: Bounds, by_factor: Ints, replicas: int) -> int:
    """Estimate the arcs of placing partitions one by one, from their number by replication factor and replicas."""
    each = np.where(bounds.most == 1, 2, np.where(bounds.most > 1, 1 + brokers.rack_sizes, 0)).sum(axis=1)
    return int(each @ by_factor) + replicas


def arcs_of_crowded(brokers: Brokers, bounds: Bounds, kinds: Ints, sizes: Ints) -> int:
    """Estimate the arcs of placing one by one the partitions that exceed a rack's maximum.

    `kinds` and `sizes` are the kinds of partitions (`kinds_of`) and how many there are of each.
    """
    crowded = is_crowded(kinds, bounds)
    kinds, sizes = kinds[crowded], sizes[crowded]
    by_factor = np.bincount(kinds[:, 0], sizes, len(bounds.most)).astype(np.int64)
    return arcs_of(brokers, bounds, by_factor, int(kinds[:, 1:-1].sum(axis=1) @ sizes))


def each_of(arcs: int, partitions: int, most_arcs: int) -> int:
    """Return the stride of partition numbers that are placed again besides the invalid ones; 0 for none.

    `arcs` is what all partitions take, and `most_arcs` what these may take.
    """
    return partitions * max(1, arcs // max(1, partitions)) // most_arcs + 1 if most_arcs else 0


def place_again(some: Problem, placed: Replicas, bounds: Bounds, loads: Ints) -> Replicas | None:
    """Place partitions one by one while all others are in their planned places; None if there is no solution.

    `loads` is what brokers have in the plan, including what is `placed` of these partitions.
    """
    grouped = alone(some)
    try:
        flow = least_moves(some, grouped.groups, bounds, loads - some.loads(placed))
    except NoFlow:
        return None
    return realise(some, grouped, bounds, flow)
