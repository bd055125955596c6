"""Aborting a switch in the console: its preview in each phase, and that it is executed once."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from backend.domain.switch.cluster_switch import Phase, Retarget
from backend.domain.switch.switch_commands import Abort, SwitchCommand
from tests.nightly import some_now
from tests.support.api.commands_parsed import parsed
from tests.support.console.consoles import Console
from tests.support.console.switching import COMPLETED, DRAINING, HOLDING, MOVED, MOVING, commands, start, to
from tests.support.console.visitors import Visitor, code, head, hidden, said, visitor
from tests.support.database.postgres import Database

PAGE = "/switches/s1/-abort"
BUTTON = ">Abort switch</button>"


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


def events(console: Console, name: str) -> list[dict[str, Any]]:
    return [each for each in console.rest.ok("GET", "/events?limit=200")["items"] if each["name"] == name]


def target_of_c1(console: Console) -> Any:
    return console.rest.ok("GET", "/trees/main/distributors/c1/2")["target"]


def confirm(operator: Visitor, sent: dict[str, str]) -> None:
    """Confirm the form; it leads to the switch, whatever it changed."""
    answer = operator.client.post(PAGE, data={**sent, "step": "confirm"})
    assert (answer.status_code, answer.headers.get("location")) == (303, "/switches/s1"), said(answer)


@pytest.mark.parametrize(
    ("given", "state", "clients"),
    [
        (HOLDING[:1], "Preparing", "Clients do not hold yet; they stay on c1 without interruption."),
        (HOLDING, "Holding", "Producers that hold continue at once on c1"),
        (DRAINING, "Draining", "Consumers were not closed yet; they stay on c1."),
        (MOVING[:-1], "Closing", "Consumers that have closed resume on c1"),
        (MOVING, "Moving", "from their committed offsets, in generation 2."),
    ],
)
def test_the_page_says_what_an_abort_does_in_this_phase_and_nothing_is_done(
    acme: Console,
    database: Database,
    operator: Visitor,
    given: tuple[SwitchCommand, ...],
    state: str,
    clients: str,
) -> None:
    commands(database, *given)
    before = head(acme)
    page = operator.get(PAGE)
    assert page.status_code == 200 and BUTTON in page.text
    assert "Clients of acme/retail/prod continue on c1; no record is lost." in said(page)
    assert f"Switch {state} Aborted" in said(page)
    assert clients in said(page)
    assert "Records that have arrived on c2; distribution continues." in said(page)
    assert ("Group offsets that were set on c2" in said(page)) == (state in ("Closing", "Moving"))
    assert head(acme) == before


def test_it_is_done_once_however_often_it_is_sent(acme: Console, database: Database, operator: Visitor) -> None:
    commands(database, *HOLDING)
    sent, other = hidden(operator.get(PAGE)), hidden(operator.get(PAGE))
    confirm(operator, sent)
    (aborted,) = events(acme, "SwitchAborted")
    assert aborted["metadata"]["actor"] == "operator"
    after = head(acme)
    for again in (sent, other):
        confirm(operator, again)
    assert head(acme) == after
    assert "Aborted" in said(operator.get("/switches/s1"))


def test_without_having_been_previewed_it_is_only_shown(
    acme: Console, database: Database, operator: Visitor
) -> None:
    commands(database, *HOLDING)
    for fields in ({}, {"step": "confirm"}, {"step": "confirm", "once": "short"}):
        page = operator.send(PAGE, **fields)
        assert page.status_code == 200 and BUTTON in page.text
    assert events(acme, "SwitchAborted") == []


def test_it_is_carried_out_in_whatever_phase_it_is_by_then(
    acme: Console, database: Database, operator: Visitor
) -> None:
    commands(database, *HOLDING)
    sent = hidden(operator.get(PAGE))
    commands(database, *MOVING[2:])
    confirm(operator, sent)
    assert [each["data"]["phase"] for each in events(acme, "SwitchAborted")] == ["moving"]


def test_targets_that_it_has_changed_are_shown_and_go_back_with_it(
    acme: Console, database: Database, operator: Visitor
) -> None:
    other = Retarget(cluster="c1", level=2, target="c3", previous="c2")
    commands(database, start(source="c2", target="c1", retargets=(other,)), *MOVING[1:4])
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    commands(database, to(Phase.RETARGETING))
    page = operator.get(PAGE)
    assert "c1 level 2 copies to c3 c2" in said(page)
    assert target_of_c1(acme) == "c3"
    confirm(operator, hidden(page))
    assert target_of_c1(acme) == "c2"


@some_now("given", [MOVED, COMPLETED], now=(0,))
def test_after_the_move_it_is_refused_with_the_way_back(
    acme: Console, database: Database, operator: Visitor, given: tuple[SwitchCommand, ...]
) -> None:
    commands(database, *MOVING)
    sent = hidden(operator.get(PAGE))
    commands(database, *given[len(MOVING) :])
    before = head(acme)
    for page in (operator.get(PAGE), operator.client.post(PAGE, data={**sent, "step": "confirm"})):
        assert page.status_code == 409
        assert "The clients were moved already, so the switch can no longer be aborted." in said(page)
        assert BUTTON not in page.text and 'href="/switches/s1"' in page.text
    assert head(acme) == before


@some_now("by", ["operator", "worker"], now=(0,))
def test_one_that_is_taken_back_already_has_nothing_to_confirm(
    database: Database, operator: Visitor, by: str
) -> None:
    commands(database, *HOLDING, Abort(by=by, reason="too slow"))
    page = operator.get(PAGE)
    assert "Nothing would change: the switch is aborted already." in said(page)
    assert BUTTON not in page.text and "There is nothing to confirm." in said(page)


def test_the_same_elsewhere(acme: Console, database: Database, operator: Visitor) -> None:
    commands(database, *HOLDING)
    page = operator.get(PAGE)
    command = code(page, "same-command")
    assert command == "treeline switch abort s1"
    assert parsed(shlex.split(command)[1:]).params["switch"] == "s1"
    assert 'curl -X POST "$TREELINE_URL/api/v1/switches/s1/abort"' in code(page, "same-curl")
