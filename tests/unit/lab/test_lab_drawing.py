"""Layout of a drill's moment: cells and marks on one scale, wires with a column each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from backend.replication_lab.model.history import Invariant
from backend.replication_lab.runs.drills import drill
from backend.replication_lab.scenarios import SCENARIOS
from backend.web.lab.lab_drawing import (
    CELL,
    LEFT,
    MOST_CELLS,
    RecordNames,
    Window,
    bar_of,
    committed_bar,
    missing_offsets,
    window_of,
)
from backend.web.lab.lab_subject import OfScenario, scenario_address
from backend.web.lab.lab_view import CONSEQUENCES, PlayerView
from backend.web.lab.lab_wires import BROKER, COMMITTED, GAP, PRODUCERS, STORE, WIDTH, end_named, wires_of
from tests.nightly import some_now

NOTHING = RecordNames(0, ())


def broker(*records: str, hw: int, flushed: int = 0, epoch: int | None = None) -> dict[str, Any]:
    log = [{"record": each, "epoch": 1} for each in records]
    found = {
        "id": 2,
        "log": log,
        "log_start": 0,
        "leo": len(log),
        "hw": hw,
        "flushed": flushed,
        "checkpoint": 0,
        "epoch": epoch,
    }
    return found | {"alive": True, "paused": False}


def kinds(found: dict[str, Any], *committed: str) -> list[tuple[str, str]]:
    bar = bar_of(found, RecordNames(0, committed), Window(0, max(len(committed), found["leo"])))
    return [(each.record, each.kind) for each in bar.cells]


def frame(brokers: int = 3, **changes: Any) -> dict[str, Any]:
    """Return a frame of brokers with empty logs."""
    found = [{**broker(hw=0), "id": each} for each in range(1, brokers + 1)]
    return {"brokers": found, "committed": [], "committed_start": 0, "messages": [], "cut": [], **changes}


def message(sender: int, receiver: int, what: str = "fetch from offset 2") -> dict[str, Any]:
    return {"from": sender, "to": receiver, "what": what}


@pytest.mark.parametrize(
    ("found", "committed", "expected"),
    [
        (broker("a0", "a1", hw=1), ("a0",), [("a0", "sure"), ("a1", "unsure")]),
        (broker("a0", hw=1), ("a0", "a1"), [("a0", "sure"), ("a1", "missing")]),
        (broker("b0", "a1", hw=1), ("a0", "a1"), [("b0", "other"), ("a1", "unsure")]),
        (broker(hw=0), (), []),
    ],
)
def test_a_cell_says_how_its_record_stands_to_the_hw_and_to_what_is_committed(
    found: dict[str, Any], committed: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    assert kinds(found, *committed) == expected


def test_marks_stand_at_the_edges_of_cells() -> None:
    bar = bar_of(broker("a0", "a1", "a2", hw=1, flushed=2), RecordNames(0, ("a0",)), Window(0, 3))
    assert [each.x for each in bar.cells] == [LEFT, LEFT + CELL, LEFT + 2 * CELL]
    assert (bar.hw_at, bar.leo_at, bar.disk_at) == (LEFT + CELL, LEFT + 3 * CELL, LEFT + 2 * CELL)
    assert bar.labels_at[1] + 20 <= bar.width, "the LEO's label is within the picture"


def test_a_long_log_is_cut_at_its_beginning_and_says_how_much_is_left_out() -> None:
    long, short = broker(*(f"a{n}" for n in range(42)), hw=41), broker("a0", hw=1)
    window = window_of({"committed": ["a0"], "committed_start": 0, "brokers": [long, short]})
    bar, other = bar_of(long, NOTHING, window), bar_of(short, NOTHING, window)
    assert (len(bar.cells), bar.left_out, bar.cells[-1].record) == (MOST_CELLS, 35, "a41")
    assert (other.cells, other.left_out) == ([], 1)
    assert other.hw_at == other.leo_at < LEFT, "its marks stand where it is left out"


def test_the_picture_is_said_in_words() -> None:
    found = bar_of(broker("a0", "b1", hw=1, flushed=1), RecordNames(0, ("a0", "a1", "a2")), Window(0, 3))
    assert found.said == (
        "Log of broker 2: a0, b1; it ends at 2 (LEO), its HW is 1. On disk: 1 record and HW 0. "
        "Missing committed records: a2 at offset 2. "
        "Differs from committed records: b1 at offset 1, where a1 is committed."
    )
    assert "Log of broker 2: empty;" in bar_of(broker(hw=0), NOTHING, Window(0, 1)).said


def test_what_is_lost_of_the_committed_is_struck_out() -> None:
    committed = RecordNames(0, ["a0", "a1"])
    lost = missing_offsets(broker("a0", hw=1), committed)
    bar = committed_bar(committed, lost, Window(0, 2))
    assert [(each.record, each.kind) for each in bar.cells] == [("a0", "promised"), ("a1", "lost")]
    assert bar.said == "Committed: a0, a1. Lost: a1 at offset 1."
    assert committed_bar(NOTHING, frozenset(), Window(0, 1)).said == "Committed: nothing yet."


def test_a_message_goes_from_the_middle_of_a_lane_to_the_middle_of_another() -> None:
    top = PRODUCERS + GAP + STORE + GAP
    up, down = wires_of(frame(messages=[message(2, 1), message(-1, 2)])).messages
    assert (up.y, up.to_y) == (top + BROKER + GAP + BROKER // 2, top + BROKER // 2)
    assert (down.y, down.to_y) == (PRODUCERS // 2, top + BROKER + GAP + BROKER // 2)
    assert [text for _, text in up.label] == ["fetch from", "offset 2"]
    assert wires_of(frame()).height == top + 3 * (BROKER + GAP) + COMMITTED


@pytest.mark.parametrize("ends", [(1, 2), (2, 1), (0, 1), (3, 0), (1, 3), (-1, 1), (-1, 3), (-2, 0)])
def test_a_label_stands_within_a_lane_and_on_no_edge_of_one(ends: tuple[int, int]) -> None:
    (wire,) = wires_of(frame(messages=[message(*ends)])).messages
    heights, edges, top = [PRODUCERS, STORE, BROKER, BROKER, BROKER, COMMITTED], [], 0
    for height in heights:
        edges += [top, top + height]
        top += height + GAP
    # A line of 12 pixels begins some 10 above where it stands, and ends 3 below.
    taken = [(y - 10, y + 3) for y, _ in wire.label] + [(wire.tag_at - 8, wire.tag_at + 8)]
    crossed = [(edge, span) for edge in edges for span in taken if span[0] <= edge <= span[1]]
    assert wire.label and (not crossed or ends == (-2, 0)), crossed
    assert min(wire.y, wire.to_y) <= wire.tag_at <= max(wire.y, wire.to_y)


@pytest.mark.parametrize("messages", range(1, 9))
@pytest.mark.parametrize("cuts", range(4))
def test_each_wire_has_a_column_and_labels_where_there_is_room(messages: int, cuts: int) -> None:
    found = wires_of(frame(messages=[message(1, 2)] * messages, cut=[(0, 1), (1, 2), (2, 3)][:cuts]))
    places = [*(each.x for each in found.cuts), *(each.x for each in found.messages)]
    assert all(after - before >= 18 for before, after in pairwise(places))
    assert places[-1] <= WIDTH - 18
    assert bool(found.messages[0].label) == (messages <= (2 if cuts else 3))
    assert [end_named(end) for end in (0, 2, -2)] == ["the store", "broker 2", "producer b"]
    assert len(found.entries) == messages


def test_of_more_wires_than_there_is_room_for_all_are_told():
    found = wires_of(frame(messages=[message(1, 2)] * 14, cut=[(0, 1), (0, 2), (0, 3), (1, 2)]))
    assert (len(found.messages), len(found.drawn)) == (10, 3)
    assert found.messages[-1].x <= WIDTH - 10
    assert (len(found.entries), len(found.cuts)) == (14, 4)


def test_of_long_logs_the_newest_records_are_drawn_where_they_are() -> None:
    """A frame has a log's newest records only, and another log may end far before."""
    records = [f"a{n}" for n in range(500)]
    long = {**broker(*records[470:], hw=499), "log_start": 470, "leo": 500}
    other = {**broker(*records[40:69], "b0", hw=70), "log_start": 40, "leo": 70}
    committed = RecordNames(469, records[469:499])
    window = window_of({"committed": committed.names, "committed_start": 469, "brokers": [long, other]})
    assert (window.first, window.end) == (493, 500)
    assert [each.record for each in bar_of(long, committed, window).cells] == records[493:]
    behind = bar_of(other, committed, window)
    assert [(each.record, each.kind) for each in behind.cells] == [(each, "missing") for each in records[493:499]]
    assert behind.left_out == 70
    assert missing_offsets(long, committed) == frozenset()
    assert missing_offsets(other, committed) == frozenset(range(469, 499))
    assert "Log of broker 2: 480 earlier records, a480" in bar_of(long, committed, window).said


@pytest.mark.parametrize("mode", ["faithful", "fixed"])
@some_now("name", SCENARIOS, now=range(0, len(SCENARIOS), 5))
def test_every_moment_of_every_scenario_can_be_drawn(name: str, mode: str) -> None:
    played = drill(name, mode, 1, with_frames=True)
    for at in range(len(played.moments)):
        view = PlayerView(OfScenario(SCENARIOS[name]), played, at)
        width = view.window.width
        assert width <= LEFT + MOST_CELLS * CELL + 22
        for lane in view.lanes:
            assert lane.bar.width == width and 0 < lane.bar.hw_at < width
        assert len(view.wires.messages) <= 8 and view.committed.width == width
        assert bool(view.lost) == (view.is_at_violation and played.violated == "committed_record_lost")


def test_ways_lead_to_other_moments_only() -> None:
    played = drill("hw-truncation-loss", "faithful", 1, with_frames=True)
    subject = OfScenario(SCENARIOS["hw-truncation-loss"])
    first, last = PlayerView(subject, played, 0), PlayerView(subject, played, len(played.moments) - 1)
    assert {name: way is None for name, _, way in first.ways} == {
        "first": True, "previous": True, "next": False, "last": False,
    }  # fmt: skip
    assert last.go(last.at) is None and last.lost_text == "a0 is lost"
    assert last.ways[0][2] == scenario_address("hw-truncation-loss", "faithful", 1, 0)
    assert set(CONSEQUENCES) == set(Invariant)
