"""Exchanges that spread topics over brokers without any cost in earlier objectives."""

from __future__ import annotations

import numpy as np
import pytest

from backend.placement.leaders import choose_leaders
from backend.placement.partition_placement import ARCS_ALONE, place
from backend.placement.plan import make, settle
from backend.placement.problem import Ints, Problem, Replicas
from backend.placement.request_document import read_problem
from backend.placement.topic_exchange import exchanged, exchanges, rows_of
from backend.placement.verify import broken, count
from tests.nightly import some_now
from tests.support.domain.placement_instances import question
from tests.unit.placement.test_groups import CHANGES


def spreads(problem: Problem, replicas: Replicas) -> Ints:
    """Return by topic and rack the largest difference between two brokers."""
    total = len(problem.broker_ids)
    cells = problem.topic_of[replicas.owners] * total + replicas.brokers
    counts = np.bincount(cells, minlength=len(problem.topics) * total).reshape(-1, total)
    racks = [problem.is_usable & (problem.rack_of == rack) for rack in range(len(problem.racks))]
    return np.array([np.ptp(counts[:, rack], axis=1) for rack in racks if rack.any()])


def before_and_after(problem: Problem, most_arcs: int) -> tuple[Problem, Replicas, Replicas]:
    """Return (problem, replicas without exchanges, replicas with them); check all that must not change."""
    settled = settle(problem)
    placed = place(settled, most_arcs).replicas
    leaders, every = choose_leaders(settled, placed), np.arange(len(placed))
    spread, led = exchanged(settled, every, placed, leaders, exchanges(rows_of(settled, every, placed, leaders)))
    old, new = count(settled, placed), count(settled, spread)
    assert new.moves == old.moves
    assert new.loads.tolist() == old.loads.tolist()
    assert np.bincount(led[led >= 0]).tolist() == np.bincount(leaders[leaders >= 0]).tolist()
    firsts = settled.now.firsts
    assert (led != firsts).sum() <= (leaders != firsts).sum()
    assert all((led[p] == -1) or led[p] in spread.of(p) for p in every.tolist())
    same = [{rule: each.tolist() for rule, each in broken(settled, which).items()} for which in (placed, spread)]
    assert same[0] == same[1]
    fixed = np.flatnonzero(settled.is_fixed)
    assert spread.some(fixed).brokers.tolist() == placed.some(fixed).brokers.tolist()
    return settled, placed, spread


@pytest.mark.parametrize("most_arcs", [0, ARCS_ALONE], ids=["together", "alone"])
@some_now("first", range(0, 600, 100), now=(0, 1))
def test_no_topic_is_spread_worse_and_nothing_else_changes(first: int, most_arcs: int) -> None:
    exchanged_some = 0
    for seed in range(first, first + 100):
        problem, placed, spread = before_and_after(read_problem(question(seed)), most_arcs)
        assert (spreads(problem, spread) <= spreads(problem, placed)).all(), f"seed {seed}"
        exchanged_some += placed.brokers.tolist() != spread.brokers.tolist()
    assert exchanged_some, "none of them had anything to exchange"


@pytest.mark.parametrize("change", ["brokers come", "brokers leave", "racks are fewer than replicas"])
def test_topics_of_a_larger_cluster_are_spread_better(change: str) -> None:
    problem, placed, spread = before_and_after(CHANGES[change](), 0)
    before, after = spreads(problem, placed), spreads(problem, spread)
    assert (after <= before).all() and after.sum() < before.sum()


def three_brokers_and_three_more() -> Problem:
    """One topic is large and many are small."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": [1 + (number + at) % 3 for at in range(3)]}
        for topic, size in [("large", 60), *((f"small-{at:02}", 6) for at in range(10))]
        for number in range(size)
    ]
    return read_problem({"brokers": [{"id": each} for each in range(1, 7)], "partitions": partitions})


def test_what_comes_to_new_brokers_is_of_all_topics() -> None:
    plan = make(three_brokers_and_three_more())
    assert plan.counted.moves == plan.lower_bound == 180
    assert spreads(plan.problem, plan.problem.now).tolist() == [[60] + [6] * 10]
    assert spreads(plan.problem, plan.replicas).max() <= 3
