"""The page of a placement while it is executed, and the actions of an operator there."""

from __future__ import annotations

import pytest

from backend.deciders import PLACEMENT
from backend.domain.placement.placement_runs import EndRun, PlacementState, RefuseRun
from backend.queries.placement import placement_runs
from tests.support.console.consoles import Console
from tests.support.console.placing import GROWN, ask, documents, planned
from tests.support.console.visitors import Visitor, hidden, record, said, visitor
from tests.support.database.postgres import Database

TOLD = {
    "moves_done": 3,
    "moves_in_flight": 2,
    "moves_left": 5,
    "bytes_left": 3 * 2**20,
    "fraction": 0.25,
    "seconds_left": 42.0,
    "held_up": {"orders-3": "broker 7, which is to get a replica, is unavailable"},
    "failing": None,
}


@pytest.fixture
def operator(acme: Console, database: Database) -> Visitor:
    ask(database, "p1")
    planned(database, "p1", documents(GROWN))
    return visitor(acme, "operator")


def apply(operator: Visitor, **fields: str) -> int:
    sent = {**hidden(operator.get("/placements/p1")), "confirm": "c1", "moves_per_broker": "5", **fields}
    status: int = operator.client.post("/placements/p1/-apply", data=sent).status_code
    return status


def tell(database: Database, **other: object) -> None:
    with database.engine.begin() as connection:
        placement_runs.store_progress(connection, "p1", {**TOLD, **other})


def test_it_is_applied_once_the_cluster_is_typed(operator: Visitor, database: Database) -> None:
    assert apply(operator, confirm="c2") == 422
    assert apply(operator, moves_per_broker="0") == 422
    assert apply(operator, digest="0" * 32) == 409
    assert apply(operator, bytes_per_second="50 MiB") == 303
    assert "A worker is reading c1." in said(operator.get("/placements/p1"))
    tell(database)
    page = operator.get("/placements/p1/-live")
    text = said(page)
    assert "3 of 10 moves done, 2 in flight, 3.0 MiB to copy, about 42.0 s left." in text
    assert (
        "Limits: throttle 50 MiB/s per broker, 5 concurrent moves per broker, 1,000 concurrent partitions" in text
    )
    assert "25 % of bytes copied" in text and "orders-3 waits: broker 7, which is to get a replica" in text
    assert "HX-Refresh" not in page.headers
    tell(database, failing="c1: nobody answers")
    assert "The run cannot continue at the moment and retries: c1: nobody answers" in said(
        operator.get("/placements/p1/-live")
    )


def test_it_is_paused_cancelled_and_taken_back(operator: Visitor, database: Database) -> None:
    assert apply(operator) == 303
    for word, label, then in (
        ("pause", "Paused", "Resume"),
        ("resume", "Applying", "Pause"),
        ("cancel", "Cancelling", ""),
    ):
        assert operator.send("/placements/p1/-say", word=word).status_code == 303
        text = said(operator.get("/placements/p1"))
        assert label in text and then in text, word
    late = operator.send("/placements/p1/-say", word="pause")
    assert late.status_code == 409 and "it cannot be paused" in said(late)
    report = {
        "partitions": 9,
        "arrived": 4,
        "gone": {"count": 7, "examples": [f"orders-{each}" for each in range(6)]},
    }
    end = EndRun(run=1, after=PlacementState.CANCELLING, report=report)
    record(database, end, PLACEMENT, "placement-p1")
    text = said(operator.get("/placements/p1"))
    assert (
        "4 of 9 changed partitions on their planned brokers; 7 partitions were deleted (orders-0, orders-1, "
        in text
    )
    assert "orders-4 and 2 more)." in text
    assert operator.send("/placements/p1/-say", word="rollback").status_code == 303
    record(database, EndRun(run=2, after=PlacementState.ROLLING_BACK, report=report), PLACEMENT, "placement-p1")
    assert "Rolled back 4 of 9 changed partitions on their original brokers" in said(
        operator.get("/placements/p1")
    )


def test_the_form_has_the_limits_that_would_hold(operator: Visitor, database: Database) -> None:
    assert apply(operator, bytes_per_second="3 MiB", moves_per_broker="2") == 303
    assert operator.send("/placements/p1/-say", word="cancel").status_code == 303
    end = EndRun(run=1, after=PlacementState.CANCELLING, report={"partitions": 9, "arrived": 0})
    record(database, end, PLACEMENT, "placement-p1")
    page = operator.get("/placements/p1").text
    assert 'value="3 MiB"' in page and 'name="moves_per_broker" id="moves" inputmode="numeric" value="2"' in page
    assert operator.send("/placements/p1/-say", word="rollback").status_code == 303
    assert "Limits: throttle 3 MiB/s per broker, 2 concurrent moves per broker" in said(
        operator.get("/placements/p1")
    )


def test_a_page_from_before_takes_no_throttle_away(operator: Visitor, database: Database) -> None:
    before = hidden(operator.get("/placements/p1"))
    assert apply(operator, bytes_per_second="3 MiB", moves_per_broker="2") == 303
    sent = {**before, "confirm": "c1", "bytes_per_second": "", "moves_per_broker": "5"}
    assert operator.client.post("/placements/p1/-apply", data=sent).status_code == 303
    assert "Limits: throttle 3 MiB/s per broker, 2 concurrent moves per broker" in said(
        operator.get("/placements/p1")
    )


def test_why_it_was_refused_is_said(operator: Visitor, database: Database) -> None:
    assert apply(operator) == 303
    why = "c1 has changed since the plan was made: topics were deleted (orders); create a new plan"
    record(database, RefuseRun(run=1, reason=why), PLACEMENT, "placement-p1")
    page = operator.get("/placements/p1")
    assert "Planned C1 has changed since the plan was made: topics were deleted" in said(page)
    assert 'id="apply"' in page.text


def test_who_may_only_look_has_no_buttons(acme: Console, operator: Visitor) -> None:
    viewer = visitor(acme, "viewer")
    assert 'id="apply"' not in viewer.get("/placements/p1").text
    assert viewer.send("/placements/p1/-apply", confirm="c1").status_code == 403
    assert viewer.send("/placements/p1/-say", word="cancel").status_code == 403
    assert operator.send("/placements/nothing/-say", word="cancel").status_code == 404
    assert operator.send("/placements/p1/-say", word="fly").status_code == 422
