"""The comparison of a plan with its input, and its grids: correct when small, bounded and quick when large."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from backend.queries.placement.placements import PlanDocuments
from backend.web.placement.placement_compared import Change, Compared, compare
from backend.web.placement.placement_drawing import draw
from backend.web.placement.placement_heat import MOST_COLUMNS, MOST_ROWS, SHADES, cut, heat
from backend.web.placement.placement_plan_view import Plans, plan_view
from tests.support.console.placing import GROWN, brokers, documents, partition

BEFORE = [partition("a", 0, 1, 2), partition("a", 1, 2, 1), partition("b", 0, 2, 9), partition("b", 1, 1, 2)]
AFTER = [partition("a", 0, 1, 2), partition("a", 1, 1, 3), partition("b", 0, 3, 1), partition("b", 1, 2, 1)]


def small() -> Compared:
    """Return documents in which broker 3 is new, 4 stays empty, and 9 is lost."""
    # In whatever order the documents have them.
    shuffled = random.Random(1).sample(AFTER, 4)
    return compare({"brokers": brokers("x", "y", "x", "y"), "partitions": BEFORE}, {"partitions": shuffled})


def large(count: int, partitions: int, topics: int) -> dict[str, Any]:
    """Build a request with three replicas each, in 12 racks, where the last tenth of the brokers is empty."""
    used = count * 9 // 10
    rows = [
        partition(f"topic-{p % topics:05}", p // topics, *((p * 7 + each * 1_001) % used + 1 for each in range(3)))
        for p in range(partitions)
    ]
    return {"brokers": brokers(*(f"rack-{each % 12:02}" for each in range(count))), "partitions": rows}


def spread_out(question: dict[str, Any]) -> PlanDocuments:
    """Build a plan that moves every tenth replica."""
    count = len(question["brokers"])
    rows = [
        {**row, "replicas": [p // 10 % (count // 10) + count * 9 // 10 + 1, *row["replicas"][1:]]}
        if p % 10 == 0
        else row
        for p, row in enumerate(question["partitions"])
    ]
    return PlanDocuments(question=question, plan={"partitions": rows})


def test_brokers_are_compared_and_listed_by_rack_those_that_are_gone_last() -> None:
    found = [
        (each.id, each.rack, each.kind, each.replicas, each.leaving, each.arriving, each.replicas_after)
        for each in small().brokers
    ]
    assert found == [
        (1, "x", "", 3, 0, 1, 4),
        (3, "x", "new", 0, 0, 2, 2),
        (2, "y", "", 4, 2, 0, 2),
        (4, "y", "empty", 0, 0, 0, 0),
        (9, "gone", "gone", 1, 1, 0, 0),
    ]
    led = {each.id: (each.leaders, each.leaders_after) for each in small().brokers}
    assert led == {1: (2, 2), 2: (2, 1), 3: (0, 1), 4: (0, 0), 9: (0, 0)}


def test_partitions_that_change_are_those_with_other_replicas_or_another_order() -> None:
    changed = small().changed
    assert changed == [
        Change("a", 1, (2, 1), (1, 3)),
        Change("b", 0, (2, 9), (3, 1)),
        Change("b", 1, (1, 2), (2, 1)),
    ]
    assert [(each.moves, each.leader_changes) for each in changed] == [(1, True), (2, True), (0, True)]


def test_a_small_cluster_has_a_row_for_each_broker_and_a_column_for_each_partition() -> None:
    found = heat(small())
    assert found.is_exact
    assert [column.first for column in found.columns] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert found.before.replicas.tolist() == [
        [1, 1, 0, 1],
        [0, 0, 0, 0],
        [1, 1, 1, 1],
        [0, 0, 0, 0],
        [0, 0, 1, 0],
    ]
    assert found.before.moving.tolist()[2] == [0, 1, 1, 0]
    assert found.after.moving.tolist()[:2] == [[0, 0, 1, 0], [0, 1, 1, 0]]
    leads, follows = SHADES, SHADES // 2
    assert found.shades(found.after).tolist()[0] == [leads, leads, follows, follows]


@pytest.mark.parametrize(
    ("sizes", "most", "runs"),
    [
        ([], 4, []),
        ([2, 1], 4, [(0, 1), (1, 2), (2, 3)]),
        ([8, 2], 4, [(0, 4), (4, 8), (8, 10)]),
        ([1] * 10, 4, [(0, 2), (2, 5), (5, 7), (7, 10)]),
    ],
)
def test_what_is_too_much_is_cut_at_groups_or_evenly(
    sizes: list[int], most: int, runs: list[tuple[int, int]]
) -> None:
    assert cut(sizes, most) == runs


def test_cuts_are_whole_and_never_too_many() -> None:
    chance = random.Random(7)
    for _ in range(300):
        sizes = [chance.randint(1, 60) for _ in range(chance.randint(1, 90))]
        most = chance.randint(1, 80)
        runs = cut(sizes, most)
        assert len(runs) <= most
        assert all(first < end for first, end in runs)
        assert [0, *(end for _, end in runs)] == [*(first for first, _ in runs), sum(sizes)]
        assert all(one[1] == other[0] for one, other in pairwise(runs))


@pytest.mark.parametrize(("count", "partitions", "topics"), [(300, 20_000, 20), (300, 20_000, 3_000)])
def test_a_large_cluster_is_drawn_as_small_and_loses_no_replica(count: int, partitions: int, topics: int) -> None:
    kept = spread_out(large(count, partitions, topics))
    compared = compare(kept.question, kept.plan)
    found = heat(compared)
    assert len(found.rows) <= MOST_ROWS
    assert len(found.columns) <= MOST_COLUMNS
    for grid in (found.before, found.after):
        assert int(grid.replicas.sum()) == 3 * partitions
        assert int(grid.leaders.sum()) == partitions
        assert int(grid.moving.sum()) == partitions // 10
    assert max(int(found.shades(grid).max()) for grid in (found.before, found.after)) == SHADES
    # Brokers of a row are of one rack, and new ones have rows of their own.
    assert all(row.rack for row in found.rows)
    assert sum(len(row.brokers) for row in found.rows if row.kind == "new") == count // 10
    drawing = draw(found)
    assert not drawing.is_exact
    paths = [path.d for each in drawing.maps for path in each.paths]
    assert sum(map(len, paths)) < 400_000
    assert drawing.width <= 1_002, "in a window of 1,280 pixels, beside the side bar"
    assert drawing.height < 1_200


def test_rows_and_cells_say_what_they_are() -> None:
    drawing = draw(heat(small()))
    first = {cell.description for cell in drawing.maps[0].cells}
    assert {"a 0 on broker 1: leads", "b 0 on broker 9: follows, leaves"} <= first
    assert "b 0 on broker 3: leads, arrives" in {cell.description for cell in drawing.maps[1].cells}
    assert [line.label for line in drawing.lines] == ["1", "3", "2", "4", "9"]
    assert drawing.lines[1].kind == "new"
    assert drawing.lines[1].description == "Broker 3, new: 0 replicas before, 2 after; 0 leaders before, 1 after"
    assert [line.bars[0].is_empty for line in drawing.lines] == [False, True, False, True, False]
    assert [band.name for band in drawing.racks] == ["x", "y", "gone"]
    assert [number for _, number in drawing.numbers] == [0, 1, 0, 1]


def test_names_of_topics_have_room_or_are_told_where_they_are_pointed_at() -> None:
    topics = {"acme-retail-prod-orders": 20, "acme-retail-prod-returns": 1, "acme-shop": 4, "big": 4}
    rows = [partition(topic, number, 1, 2) for topic, count in topics.items() for number in range(count)]
    drawing = draw(heat(compare({"brokers": brokers("x", "y"), "partitions": rows}, {"partitions": rows})))
    labels = {band.name: band.label for band in drawing.topics}
    assert labels == {"acme-retail-prod-orders": labels["acme-retail-prod-orders"], "big": "big"} | dict.fromkeys(
        ["acme-retail-prod-returns", "acme-shop"], ""
    )
    for band in drawing.topics:
        # A character is 7 pixels wide at most on average, and something is left to the next name.
        assert not band.label or 7 * len(band.label) + 4 <= band.length


def test_topics_and_partitions_are_labelled_however_many_there_are() -> None:
    many = [partition(f"acme-retail-prod-{topic:03}", number, 1, 2) for topic in range(60) for number in range(3)]
    drawing = draw(heat(compare({"brokers": brokers("x", "y"), "partitions": many}, {"partitions": many})))
    assert drawing.headings and not [band for band in drawing.topics if band.label]
    assert all(7 * len(band.label) <= band.length for band in drawing.headings)
    assert {band.label.endswith(" topics") for band in drawing.headings} == {True}
    assert "acme-retail-prod-000 to " in drawing.headings[0].name
    one = [partition("orders", number, 1, 2) for number in range(300)]
    drawing = draw(heat(compare({"brokers": brokers("x", "y"), "partitions": one}, {"partitions": one})))
    places = drawing.numbers
    assert places[0][1] == 0 and len(places) > 5
    room = [after - before - 3 * (len(str(a)) + len(str(b))) for (before, a), (after, b) in pairwise(places)]
    assert min(room) > 2, "none runs into the next"


def test_a_cell_shows_the_share_that_moves_and_neither_part_vanishes() -> None:
    kept = spread_out(large(300, 20_000, 20))
    drawing = draw(heat(compare(kept.question, kept.plan), most_rows=12, most_columns=12))
    assert all(cell.width > 0 for each in drawing.maps for cell in each.cells)
    leaving = [cell for cell in drawing.maps[0].cells if cell.moves]
    assert leaving
    assert all("leave" in cell.description for cell in leaving)


def test_a_plan_that_was_looked_at_is_not_read_again() -> None:
    plans, reads = Plans(), []

    def read() -> PlanDocuments:
        reads.append(1)
        return documents(GROWN)

    first = plans.view("p1", "d1", read)
    assert plans.view("p1", "d1", read) is first
    plans.view("p1", "d2", read)
    assert len(reads) == 2
    for at in range(10):
        plans.view(f"q{at}", "d", read)
    plans.view("p1", "d1", read)
    assert len(reads) == 13


def test_figures_say_how_far_above_the_bound_a_plan_is() -> None:
    plan = plan_view(documents(GROWN))
    figures = {each.label: each.value for each in plan.figures}
    assert figures["Above minimum"] == "0"
    assert figures["Replica moves"] == figures["Minimum moves"] != "0"
    assert figures["Replicas per broker"] == "8 to 9"
    assert plan.seen == "9 brokers in 3 racks; 3 get their first replicas"


def test_a_cluster_without_partitions_and_a_plan_of_another_version_have_a_view() -> None:
    empty = plan_view(
        PlanDocuments(question={"brokers": brokers(None), "partitions": []}, plan={"partitions": []})
    )
    assert empty.drawing is None
    assert {each.value for each in empty.figures} == {"–"}


def test_columns_of_several_topics_say_which_where_they_are_pointed_at() -> None:
    many = [partition(f"topic-{number:04}", 0, 1, 2) for number in range(5_000)]
    drawing = draw(heat(compare({"brokers": brokers("x", "y"), "partitions": many}, {"partitions": many})))
    assert [(band.label, band.name) for band in drawing.topics] == [("several topics", "topic-0000 to topic-4999")]
