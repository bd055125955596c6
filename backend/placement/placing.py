"""New replicas for all partitions that may move, and the bound that no plan can be below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.flows import NoFlow
from backend.placement.grouping import alone, together
from backend.placement.moving import least_moves, squares_of
from backend.placement.problem import Ints, Problem, Replicas, starts_of
from backend.placement.realising import realise, sound
from backend.placement.shares import Bounds

ARCS_ALONE = 600_000
"""Up to so many arcs partitions are taken one by one: some seconds."""
_ARCS_AGAIN = (0, ARCS_ALONE // 8, ARCS_ALONE)
"""Rounds of mending: of how many arcs' worth of other partitions are placed again besides."""


@dataclass(frozen=True)
class Placed:
    """Which brokers each partition has; in no order yet."""

    replicas: Replicas
    lower_bound: int
    """Fewer replicas cannot be moved."""


def place(problem: Problem, most_arcs: int = ARCS_ALONE) -> Placed:
    """As few moves as evenness and racks allow. `problem.is_fixed` has those that cannot be placed."""
    free = np.flatnonzero(~problem.is_fixed)
    bounds = Bounds.of(problem.rack_sizes, problem.wanted[free])
    fixed = problem.loads(problem.now.some(np.flatnonzero(problem.is_fixed)))
    one_by_one = _arcs(problem, free, bounds) <= most_arcs
    groups = alone(problem, free) if one_by_one else together(problem, free, bounds)
    flow = least_moves(problem, groups, bounds, fixed)
    replicas = _with(problem.now, free, realise(problem, groups, bounds, flow))
    for most_arcs_again in _ARCS_AGAIN:
        bad = ~sound(problem, free, replicas.some(free), bounds)
        if not bad.any() and squares_of(problem, problem.loads(replicas)) == flow.squares:
            break
        # What is left over of groups is placed once more, one by one, and others with it where it takes them.
        each = max(1, _arcs(problem, free, bounds) // max(1, len(free)))
        bad[:: max(1, len(free) * each // max(1, most_arcs_again))] |= most_arcs_again > 0
        replicas = _again(problem, replicas, free[bad], bounds)
    else:
        bad = ~sound(problem, free, replicas.some(free), bounds)
        if bad.any():
            raise ArithmeticError(f"{int(bad.sum())} partitions could not be placed")
    return Placed(replicas, flow.moves)


def _arcs(problem: Problem, free: Ints, bounds: Bounds) -> int:
    """That it takes to look at the partitions one by one."""
    sizes = problem.rack_sizes
    each = np.where(bounds.most == 1, 2, np.where(bounds.most > 1, 1 + sizes, 0)).sum(axis=1)
    return int(each[problem.wanted[free]].sum() + problem.now.counts[free].sum())


def _again(problem: Problem, replicas: Replicas, some: Ints, bounds: Bounds) -> Replicas:
    """Place some partitions one by one, all others being where they are meant to be."""
    fixed = problem.loads(replicas) - problem.loads(replicas.some(some))
    groups = alone(problem, some)
    try:
        flow = least_moves(problem, groups, bounds, fixed)
    except NoFlow:
        return replicas
    return _with(replicas, some, realise(problem, groups, bounds, flow))


def _with(all_replicas: Replicas, some: Ints, new: Replicas) -> Replicas:
    """The replicas with those of some partitions replaced."""
    counts = all_replicas.counts.copy()
    counts[some] = new.counts
    starts = starts_of(counts)
    brokers = np.zeros(starts[-1], dtype=np.int64)
    is_new = np.zeros(len(all_replicas), dtype=bool)
    is_new[some] = True
    others = np.flatnonzero(~is_new)
    for who, what in ((others, all_replicas.some(others)), (some, new)):
        shift = np.repeat(starts[:-1][who] - what.starts[:-1], what.counts)
        brokers[np.arange(len(what.brokers)) + shift] = what.brokers
    return Replicas(starts, brokers)
