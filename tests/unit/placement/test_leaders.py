"""The choice of preferred leaders, and of their successors when a broker fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model

from backend.placement.failover_order import largest_share
from backend.placement.plan import Plan, make
from backend.placement.request_document import read_problem
from tests.support.domain.placement_instances import least, question


def fewest_changes(plan: Plan) -> tuple[int, int]:
    """Compute (sum of squares, changes) of the most balanced choice of leaders among the plan's replicas."""
    problem, replicas, model = plan.problem, plan.replicas, cp_model.CpModel()
    leads: dict[int, list[Any]] = {at: [] for at in range(len(problem.broker_ids))}
    changes: list[Any] = []
    unplaced = {name for each in plan.violations for name in each.partitions}
    for partition, name in enumerate(problem.names(np.arange(len(replicas)))):
        now, old = replicas.of(partition).tolist(), int(problem.now.firsts[partition])
        if problem.is_fixed[partition] or name in unplaced:
            leads[old].append(1)
            continue
        chosen = {at: model.new_bool_var(f"{partition} by {at}") for at in now if problem.may_lead[at]}
        model.add(sum(chosen.values()) == 1)
        for at, one in chosen.items():
            leads[at].append(one)
            if at != old:
                changes.append(one)
    squares = []
    for at, ones in leads.items():
        load, square = model.new_int_var(0, 100, f"leads {at}"), model.new_int_var(0, 10_000, f"square {at}")
        model.add(load == sum(ones))
        model.add_multiplication_equality(square, [load, load])
        squares.append(square)
    evenest = least(model, squares)
    model.add(sum(squares) <= evenest)
    return evenest, least(model, changes)


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_leaders_are_as_even_as_can_be_with_the_fewest_changes(first: int) -> None:
    for seed in range(first, first + 25):
        plan = make(read_problem({**question(seed), "no_leaders": []}))
        leads = plan.counted.leads
        assert (int((leads * leads).sum()), plan.counted.leader_changes) == fewest_changes(plan), f"seed {seed}"


def test_a_broker_that_may_not_lead_gets_no_preferred_replica() -> None:
    partitions = [{"topic": "t", "partition": number, "replicas": [1, 2, 3]} for number in range(6)]
    asked = {"brokers": [{"id": each} for each in (1, 2, 3)], "partitions": partitions, "no_leaders": [1]}
    plan = make(read_problem(asked))
    assert plan.counted.leads.tolist() == [0, 3, 3] and plan.counted.moves == 0


@pytest.mark.parametrize(
    ("no_leaders", "excluded", "told"),
    [
        ([1, 2], [], [("leaders", ("t-0",))]),
        # It could be led by 2, and stays as it is.
        ([1], ["t"], [("leaders", ("t-0",))]),
        ([1], [], []),
    ],
)
def test_what_is_led_by_a_broker_that_is_to_lead_nothing_is_told(
    no_leaders: list[int], excluded: list[str], told: list[tuple[str, tuple[str, ...]]]
) -> None:
    partitions = [{"topic": "t", "partition": 0, "replicas": [1, 2]}]
    asked = {"brokers": [{"id": 1}, {"id": 2}], "partitions": partitions, "no_leaders": no_leaders}
    plan = make(read_problem({**asked, "excluded_topics": excluded}))
    assert [(each.constraint, each.partitions) for each in plan.violations] == told
    assert all("from no_leaders" in each.detail for each in plan.violations)


def test_what_stays_on_a_broker_that_is_to_hold_nothing_is_told_as_that() -> None:
    asked = {
        "brokers": [{"id": 1}, {"id": 2}],
        "target_brokers": [2],
        "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}],
        "excluded_topics": ["t"],
        "no_leaders": [1],
    }
    assert [each.constraint for each in make(read_problem(asked)).violations] == ["brokers"]


def test_whoever_could_lead_instead_of_a_broker_that_is_to_lead_nothing_does() -> None:
    """Exchanges of topics give no such partition a broker that may lead, since that one would have to lead."""
    rng = np.random.default_rng(1)
    partitions = [
        {"topic": f"t{at // 250}", "partition": at % 250, "replicas": (1 + rng.permutation(25)[:2]).tolist()}
        for at in range(5000)
    ]
    brokers = [{"id": each} for each in range(1, 31)]
    asked = {"brokers": brokers, "partitions": partitions, "no_leaders": list(range(1, 13))}
    plan = make(read_problem(asked), most_arcs=0)
    may = np.arange(1, 31) > 12
    first, second = plan.replicas.brokers.reshape(-1, 2).T
    assert int((~may[first]).sum()) > 0 and not (~may[first] & may[second]).any()


def test_what_a_broker_leads_comes_to_all_others_when_it_dies() -> None:
    """With all replicas in one order, a single broker would take over everything."""
    brokers = list(range(5))
    partitions = [
        {"topic": "t", "partition": number, "replicas": [number % 5, (number + 1) % 5, (number + 2) % 5]}
        for number in range(40)
    ]
    plan = make(read_problem({"brokers": [{"id": each} for each in brokers], "partitions": partitions}))
    assert (plan.counted.moves, plan.counted.leader_changes) == (0, 0)
    assert largest_share(plan.problem, plan.problem.now) == 1.0
    rows = [plan.replicas.of(partition).tolist() for partition in range(40)]
    heirs = Counter((row[0], row[1]) for row in rows)
    assert set(heirs.values()) == {4} and plan.largest_share == 0.5, "of two that have the replicas, each half"
