"""The report of a switch, and what its page offers once it has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.switch.switch_commands import Complete, RecordArrived
from tests.nightly import some_now
from tests.postgres.switch.test_switch_pages import LIVE, head, operator, steps
from tests.support.console.consoles import Console
from tests.support.console.switching import COMPLETED, MOVED, REPORT, commands, start
from tests.support.console.visitors import Visitor, said
from tests.support.database.postgres import Database

__all__ = ["operator"]


def test_the_report_names_who_and_what_an_operator_should_look_at(database: Database, operator: Visitor) -> None:
    commands(database, *COMPLETED)
    page = operator.get("/switches/s1")
    report = said(page).partition(" Report ")[2]
    for told_there in (
        "Producer hold time 812 ms",
        "Records not drained 0",
        "Groups translated 3",
        "Offsets set 12",
        "Maximum re-read records 0",
        "Residual writes to c1 0",
        "Forced: 1",
        "checkout-7",
        "Late: 1",
        "batch-1",
        "Groups left behind: 1",
        "Refused groups: 1",
        "acme/retail/prod/reports it has members on c2",
    ):
        assert told_there in report, told_there
    assert LIVE not in page.text and 'id="abort"' not in page.text
    assert LIVE not in operator.get("/switches/s1/-live").text


def test_more_than_are_named_are_counted(database: Database, operator: Visitor) -> None:
    silent = {"silent_clients": ["far-1", "far-2"], "silent_clients_in_all": 1_250}
    told = {**REPORT, **silent, "groups_left_behind": ["audit"], "groups_left_behind_in_all": 301}
    commands(database, *COMPLETED[:-1], Complete(measured={}, report=told))
    page = said(operator.get("/switches/s1"))
    assert "Without a report: 1,250" in page and "far-1 far-2 and 1,248 more" in page
    assert "Groups left behind: 301" in page and "audit and 300 more" in page
    assert "1,250 clients without a report" in page and "301 groups left behind" in page


def test_a_zones_report_calls_nothing_unknown_that_others_do_there(database: Database, operator: Visitor) -> None:
    told = {**REPORT, "stray_records": None, "groups_left_behind": []}
    moves = tuple(replace(each, zone="az1") for each in start().moves)
    commands(database, start(moves=moves), *COMPLETED[1:-1], Complete(measured={}, report=told))
    page = said(operator.get("/switches/s1"))
    assert "Residual writes" not in page and "Maximum re-read records 0" in page


def test_an_emergency_names_what_only_the_left_cluster_has_until_it_has_come(
    acme: Console, database: Database, operator: Visitor
) -> None:
    stranded = [{"stream": "acme/retail/prod/orders", "partition": 2, "first": 17, "end": None, "records": None}]
    report = {**REPORT, "not_drained_records": None, "producers_held_ms": 0, "stranded": stranded}
    commands(database, start(mode="emergency"), Complete(measured={}, report=report))
    page = operator.get("/switches/s1")
    assert list(steps(page.text)) == ["planned", "verifying"]
    assert "Producer hold time none" in said(page) and "Groups translated" not in said(page)
    assert "acme/retail/prod/orders 2 17 unknown" in said(page)
    assert "the log ends of an unreachable cluster are unknown, so there may be none." in said(page)
    assert "They are distributed automatically, each record once, when c1 is back." in said(page)
    assert "Late records none yet" in said(page)
    assert LIVE in page.text and 'hx-trigger="every 2s"' in page.text, "it tells when they have come"
    assert LIVE in operator.get("/switches/s1/-live").text
    assert LIVE not in operator.get(f"/switches/s1?at={head(acme)}").text
    come = RecordArrived(records=5, partitions=(("acme/retail/prod/orders", 2, 17, 21),))
    commands(database, come)
    page = operator.get("/switches/s1")
    assert (
        "Its unreplicated records have arrived: at most 5 records, each once." in said(page)
        and LIVE not in page.text
    )
    assert "Late records 5 records" in said(page)
    assert "acme/retail/prod/orders 2 17 offsets 17 to 21 arrived late" in said(page)
    assert "Lost" not in said(page)


def test_what_was_stranded_and_is_lost_is_not_said_to_have_come(
    acme: Console, database: Database, operator: Visitor
) -> None:
    stranded = [{"stream": "acme/retail/prod/orders", "partition": 2, "first": 17, "end": None, "records": None}]
    report = {**REPORT, "not_drained_records": None, "producers_held_ms": 0, "stranded": stranded}
    lost = RecordArrived(records=0, partitions=(), lost=(("acme/retail/prod/orders", 2, 17),))
    commands(database, start(mode="emergency"), Complete(measured={}, report=report), lost)
    page = operator.get("/switches/s1")
    assert "c1 is back" not in said(page)
    assert "acme/retail/prod/orders 2 17 lost, or deleted before their arrival was observed" in said(page)
    assert "Lost records in 1 partition: the log was recreated or truncated" in said(page)
    assert "lost records in 1 partition of c1" in said(operator.get("/switches"))
    assert "lost on 1 partition" in said(operator.get("/tree"))


@pytest.mark.nightly  # another line of the same report
def test_what_was_known_to_be_at_risk_is_told_with_what_may_be_left(database: Database, operator: Visitor) -> None:
    stranded = [{"stream": "acme/retail/prod/orders", "partition": 2, "first": 17, "end": None, "records": None}]
    report = {**REPORT, "stranded": stranded, "records_at_risk": 9}
    commands(database, start(mode="emergency"), Complete(measured={}, report=report))
    assert "Unreplicated on c1 9 records" in said(operator.get("/switches/s1"))
    told = "When the switch started, distributors had last observed 9 records of all tenants on c1 only;"
    assert told in said(operator.get("/switches/s1"))


@some_now(
    "key, about",
    [
        ("read_again", "Upper bound by group and partition."),
        ("read_on", "These groups committed or read there after their offsets had been translated to c2"),
    ],
    now=(1,),
)
def test_what_comes_again_is_named_by_group_and_partition(
    database: Database, operator: Visitor, key: str, about: str
) -> None:
    group = {"group": "acme/retail/prod/billing", "stream": "acme/retail/prod/orders"}
    rows = [{**group, "partition": 1, "records": 1_204}]
    commands(database, *MOVED, Complete(measured={}, report={**REPORT, "re_read_bound": 1_204, key: rows}))
    page = said(operator.get("/switches/s1"))
    assert about in page and "acme/retail/prod/billing acme/retail/prod/orders/1: 1,204 records" in page


def test_one_that_was_taken_back_by_another_is_not_offered_to_be_reversed(
    database: Database, operator: Visitor
) -> None:
    commands(database, *COMPLETED)
    assert 'id="reverse"' in operator.get("/switches/s1").text
    back = start("s2", source="c2", target="c1", mode="emergency", generation=3, reverses="s1")
    commands(database, back, switch="s2")
    page = operator.get("/switches/s1")
    assert 'id="reverse"' not in page.text
    assert "None of the moved clients is still on c2; there is nothing to reverse." in said(page)
    assert 'id="reverse"' in operator.get("/switches/s2").text
