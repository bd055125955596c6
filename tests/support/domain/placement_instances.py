"""Random small clusters, and their optimum, found by a different solver in a different way."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from backend.placement.problem import Problem
from backend.placement.racks import rack_bounds

GONE_ID = 50
"""Id of a broker that is unknown except for the replicas it holds."""


def question(seed: int) -> dict[str, Any]:
    """Generate a request with up to 9 brokers in up to 4 racks of any sizes.

    Replicas are anywhere, also two in a rack; brokers leave, join or are lost, factors change, topics are
    excluded, and brokers may not lead.
    """
    rng = random.Random(seed)
    count, racks = rng.randint(2, 9), rng.choice([0, 1, 2, 3, 4])
    ids = rng.sample(range(1, 50), count)
    brokers = [{"id": each, **({"rack": f"r{rng.randrange(racks)}"} if racks else {})} for each in ids]
    partitions = []
    for topic in range(rng.randint(1, 3)):
        factor = rng.randint(1, min(4, count))
        for number in range(rng.randint(1, 7)):
            replicas = rng.sample(ids, factor)
            size = rng.randrange(1000)
            partitions.append(
                {"topic": f"t{topic}", "partition": number, "replicas": replicas, "size_bytes": size}
            )
    found = {
        "brokers": brokers,
        "target_brokers": rng.sample(ids, rng.randint(1, count)),
        "partitions": partitions,
    }
    if rng.random() < 0.3:
        found["excluded_topics"] = ["t0"]
    if rng.random() < 0.3:
        found["replication_factor"] = rng.randint(1, 4)
    if rng.random() < 0.2:
        found["no_leaders"] = rng.sample(ids, rng.randint(1, max(1, count // 2)))
    if rng.random() < 0.2:
        for row in rng.sample(partitions, len(partitions) // 2):
            row["replicas"][rng.randrange(len(row["replicas"]))] = GONE_ID
    return found


@dataclass(frozen=True)
class Best:
    """The optimum; each figure is optimal given those before it."""

    squares: int
    """Sum of squares of the loads on usable brokers; the minimum is the best balance."""
    moves: int
    led_barred: int
    """Number of partitions led by brokers that may not lead."""
    led_squares: int
    """Sum of squares of the partitions that other brokers lead."""
    leader_changes: int


def best(problem: Problem) -> Best:
    """Compute the optimum by constraint programming, partition by partition and broker by broker."""
    usable = [at for at in range(len(problem.broker_ids)) if problem.may_hold[at] and problem.rack_of[at] >= 0]
    sizes, model = problem.rack_sizes, cp_model.CpModel()
    loads: dict[int, list[Any]] = {at: [] for at in range(len(problem.broker_ids))}
    leads: dict[int, list[Any]] = {at: [] for at in loads}
    moves: list[Any] = []
    changes: list[Any] = []
    for partition in range(len(problem.now)):
        now, factor = problem.now.of(partition).tolist(), int(problem.wanted[partition])
        if problem.is_fixed[partition] or factor > len(usable):
            for at in now:
                loads[at].append(1)
            leads[now[0]].append(1)
            continue
        bounds = zip(*(each.tolist() for each in rack_bounds(sizes, factor)), strict=True)
        chosen = {at: model.new_bool_var(f"{partition} on {at}") for at in usable}
        model.add(sum(chosen.values()) == factor)
        for rack, (low, high) in enumerate(bounds):
            there = [one for at, one in chosen.items() if problem.rack_of[at] == rack]
            model.add(sum(there) >= low)
            model.add(sum(there) <= high)
        for at, one in chosen.items():
            loads[at].append(one)
            if at not in now:
                moves.append(one)
        first = {at: model.new_bool_var(f"{partition} led by {at}") for at in usable}
        model.add_exactly_one(first.values())
        for at, one in first.items():
            model.add_implication(one, chosen[at])
            leads[at].append(one)
        changes += [one for at, one in first.items() if at != now[0]]
    squares = [_square(model, loads[at]) for at in usable]
    evenest = least(model, squares)
    model.add(sum(squares) <= evenest)
    fewest = least(model, moves)
    model.add(sum(moves) <= fewest)
    barred = [one for at in usable if not problem.may_lead[at] for one in leads[at]]
    fewest_barred = least(model, barred)
    model.add(sum(barred) <= fewest_barred)
    led = [_square(model, leads[at]) for at in usable if problem.may_lead[at]]
    evenest_led = least(model, led)
    model.add(sum(led) <= evenest_led)
    return Best(evenest, fewest, fewest_barred, evenest_led, least(model, changes))


def _square(model: cp_model.CpModel, of: list[Any]) -> Any:
    """Return the square of the sum."""
    load, square = model.new_int_var(0, 100, ""), model.new_int_var(0, 10_000, "")
    model.add(load == sum(of))
    model.add_multiplication_equality(square, [load, load])
    return square


def least(model: cp_model.CpModel, of: list[Any]) -> int:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    model.minimize(sum(of))
    assert solver.solve(model) == cp_model.OPTIMAL
    return int(solver.objective_value)
