"""Replicas of a new topic: as in the replication design, and where the design is corrected."""

from __future__ import annotations

from collections import Counter

import pytest

from backend.placement.errors import PlacementInvalid
from backend.placement.initial import rows
from backend.placement.plan import make
from backend.placement.request_document import read_brokers, read_problem


def placed(racks: list[int], partitions: int, factor: int, *, literal: bool = False) -> list[list[int]]:
    """Place replicas on brokers 0 and up with these racks; without racks if there is only one."""
    named = len(set(racks)) > 1
    brokers = [{"id": at, **({"rack": f"r{rack}"} if named else {})} for at, rack in enumerate(racks)]
    return rows(read_brokers(brokers), partitions, factor, literal=literal)


def test_the_figure_of_the_design() -> None:
    """With 5 brokers and p0 to p14, the three partitions of a lost broker are served by all 4 others."""
    found = placed([0] * 5, 15, 2)
    assert found[:6] == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 2]]
    assert found == placed([0] * 5, 15, 2, literal=True)
    three = placed([0] * 5, 15, 3)
    assert {other for row in three if row[0] == 0 for other in row[1:]} == {1, 2, 3, 4}


def test_as_given_it_collides_where_j_plus_k_is_a_multiple_of_n() -> None:
    literal, found = placed([0] * 5, 25, 3, literal=True), placed([0] * 5, 25, 3)
    colliding = [number for number, row in enumerate(literal) if len(set(row)) < 3]
    assert len(colliding) == 10 and all(
        (number // 5 + 1) % 5 == 0 or (number // 5 + 2) % 5 == 0 for number in colliding
    )
    assert [number for number in range(25) if found[number] != literal[number]] == colliding
    assert all(len(set(row)) == 3 for row in found)


@pytest.mark.parametrize("brokers", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_a_lost_brokers_load_comes_to_all_survivors_evenly(brokers: int, factor: int) -> None:
    if factor > brokers:
        with pytest.raises(
            PlacementInvalid, match=f"{factor} replicas need {factor} brokers, and there are {brokers}"
        ):
            placed([0] * brokers, 10, factor)
        return
    cycles = 4 * max(1, brokers - 1)
    found = placed([0] * brokers, brokers * cycles, factor)
    assert all(len(set(row)) == factor for row in found)
    assert set(Counter(row[0] for row in found).values()) == {cycles}
    assert set(Counter(each for row in found for each in row).values()) == {cycles * factor}
    if factor > 1:
        next_ones = Counter((row[0], row[1]) for row in found)
        assert len(next_ones) == brokers * (brokers - 1)
        assert max(next_ones.values()) - min(next_ones.values()) <= 2, next_ones


@pytest.mark.parametrize(
    ("racks", "factor", "spanned"),
    [
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3, 3),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 2, 2),
        ([0, 1, 0, 1], 3, 2),
        ([0, 0, 1, 1, 2, 2, 3, 3], 3, 3),
        # Of different sizes.
        ([0, 0, 0, 0, 1, 1, 2], 3, 3),
        ([0, 0, 0, 0, 1], 2, 2),
        ([0, 0, 1, 2, 2, 2], 4, 3),
    ],
)
@pytest.mark.parametrize("partitions", [1, 7, 60, 61])
def test_every_partition_spans_as_many_racks_as_there_are(
    racks: list[int], factor: int, spanned: int, partitions: int
) -> None:
    found = placed(racks, partitions, factor)
    for row in found:
        assert len(set(row)) == factor
        assert len({racks[broker] for broker in row}) == spanned
        shared = Counter(racks[broker] for broker in row)
        assert max(shared.values()) <= -(-factor // len(set(racks)))
    leaders = Counter(row[0] for row in found)
    counts = [leaders[broker] for broker in range(len(racks))]
    assert max(counts) - min(counts) <= 1


def loads(found: list[list[int]], brokers: int) -> list[int]:
    times = Counter(each for row in found for each in row)
    return [times[broker] for broker in range(brokers)]


@pytest.mark.parametrize("racks", [[0] * 4, [0] * 7, [0, 1, 2] * 2])
@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_it_is_as_even_as_the_formula_and_a_plan_evens_out_the_rest(racks: list[int], factor: int) -> None:
    brokers = len(racks)
    for partitions in range(1, 3 * brokers + 1):
        found = placed(racks, partitions, factor)
        here = loads(found, brokers)
        assert max(here) - min(here) <= (factor if partitions % brokers else 0)
        rows_now = [{"topic": "t", "partition": at, "replicas": row} for at, row in enumerate(found)]
        known = [{"id": at, "rack": f"r{rack}"} for at, rack in enumerate(racks)]
        plan = make(read_problem({"brokers": known, "partitions": rows_now}))
        assert plan.counted.loads.max() - plan.counted.loads.min() <= 1
        assert (plan.counted.moves > 0) == (max(here) - min(here) > 1)


def test_what_is_beyond_a_whole_row_goes_to_neighbours() -> None:
    assert loads(placed([0] * 4, 2, 2), 4) == [1, 2, 1, 0]
    assert loads(placed([0] * 4, 2, 2, literal=True), 4) == [1, 2, 1, 0]


def test_brokers_stand_in_order_whatever_the_order_of_the_list() -> None:
    turned = rows(read_brokers([{"id": each} for each in (4, 2, 0, 3, 1)]), 15, 3)
    assert turned == placed([0] * 5, 15, 3)
