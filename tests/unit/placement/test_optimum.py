"""Plans of small clusters compared with the optimum, which another solver finds in another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backend.placement import verify
from backend.placement.plan import make
from backend.placement.request_document import read_problem
from tests.support.domain.placement_instances import best, question

_AT_ONCE = 25


def _of(seeds: int) -> list[Any]:
    """Return the first seed of each batch; most run in `make nightly`."""
    later = pytest.mark.nightly
    return [pytest.param(first, marks=later if first >= seeds // 5 else ()) for first in range(0, seeds, _AT_ONCE)]


@pytest.mark.parametrize("first", _of(500))
def test_as_even_as_can_be_with_as_few_moves_as_that_takes(first: int) -> None:
    for seed in range(first, first + _AT_ONCE):
        problem = read_problem(question(seed))
        plan, optimum = make(problem), best(problem)
        usable = problem.may_hold & (problem.rack_of >= 0)
        loads = plan.counted.loads[usable]
        assert int((loads * loads).sum()) == optimum.squares, f"seed {seed}"
        assert plan.counted.moves == plan.lower_bound == optimum.moves, f"seed {seed}"
        leads, may = plan.counted.leads, problem.may_lead
        assert int(leads[usable & ~may].sum()) == optimum.led_barred, f"seed {seed}"
        assert int((leads[usable & may] ** 2).sum()) == optimum.led_squares, f"seed {seed}"
        assert plan.counted.leader_changes == optimum.leader_changes, f"seed {seed}"
        allowed = {name for each in plan.violations for name in each.partitions}
        fixed = set(problem.names(np.flatnonzero(problem.is_fixed)))
        unkept = verify.broken(problem, plan.replicas)
        told = {name for each in unkept.values() for name in problem.names(each)}
        assert told <= allowed | fixed, f"seed {seed}"


@pytest.mark.parametrize("first", _of(200))
def test_what_is_said_to_be_the_least_is_never_above_the_best(first: int) -> None:
    """The bound also holds if partitions are placed in groups, as in large clusters."""
    for seed in range(first, first + _AT_ONCE):
        problem = read_problem(question(seed))
        plan = make(problem, most_arcs=0)
        assert plan.lower_bound <= best(problem).moves, f"seed {seed}"
        assert plan.lower_bound <= plan.counted.moves, f"seed {seed}"
