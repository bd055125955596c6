"""Pages of switches: the list, active clusters, the status page in each state, and its buttons by role."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backend.domain.switch.cluster_switch import Moving, Phase
from backend.domain.switch.switch_commands import Abort, Complete, Force
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.switching import (
    COMPLETED,
    DRAINING,
    HOLDING,
    MOVED,
    MOVING,
    PROD,
    REPORT,
    client,
    commands,
    lacking,
    retarget,
    start,
    to,
    told,
)
from tests.support.console.visitors import Visitor, hidden, rows, said, visitor
from tests.support.database.postgres import Database

HOSTILE = '<b>"x"&</b>'
LIVE = 'hx-get="/switches/s1/-live"'
OFFERS = ('id="abort"', 'id="force"', 'id="reverse"')


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def head(console: Console) -> int:
    position: int = console.rest.ok("GET", "/events/head")["position"]
    return position


def steps(page: str) -> dict[str, str]:
    """Return phase -> its state on the track."""
    found = (each.split('"') for each in page.split('data-step="')[1:])
    return {parts[0]: parts[2] for parts in found}


# --- the list


def test_the_list_names_every_switch_the_newest_first_and_where_clients_are(
    acme: Console, database: Database, viewer: Visitor
) -> None:
    assert "No switches yet. A switch moves clients" in said(viewer.get("/switches"))
    commands(database, *COMPLETED)
    commands(database, start("s2", source="c2", target="c3", generation=3), switch="s2")
    page = viewer.get("/switches")
    shown = rows(page, "data-switch")
    assert list(shown) == ["s2", "s1"]
    assert "c2 → to c3 planned acme/retail/prod Preparing" in shown["s2"]
    assert shown["s2"].endswith("in progress; clients do not hold yet")
    assert "Completed" in shown["s1"] and "812 ms" in shown["s1"]
    assert "all records drained, 1 client forced, 1 client late, 1 client without a report" in shown["s1"]
    assert "1 client without a report, 1 group refused" in shown["s1"]
    places = rows(page, "data-place")
    assert places["acme/retail/prod"] == "acme/retail/prod all c2 about to move to c3 2 Switch 1 · c1 → c2"
    assert places["globex/shop/prod"] == "globex/shop/prod all c1 1 primary cluster"
    assert "c1 1 environment, c2 1 environment" in said(page)


def test_a_zone_that_went_elsewhere_has_a_line_of_its_own(database: Database, viewer: Visitor) -> None:
    moved = (start(moves=(Moving(**PROD, zone="az2"),)), *MOVED[1:])
    commands(database, *moved)
    places = rows(viewer.get("/switches"), "data-place")
    assert places["acme/retail/prod"].startswith("acme/retail/prod all others c1")
    assert places["acme/retail/prod az2"].startswith("acme/retail/prod az2 c2 2")


def test_the_list_as_it_was(acme: Console, database: Database, viewer: Visitor) -> None:
    commands(database, *HOLDING)
    at = head(acme)
    commands(database, Abort(by="operator"))
    page = viewer.get(f"/switches?at={at}")
    assert "Holding" in rows(page, "data-switch")["s1"]
    assert f"/switches/s1?at={at}" in page.text
    assert f"You are looking at position {at}" in said(page)
    assert viewer.get(f"/switches?at={at + 100}").status_code == 422
    assert viewer.get("/switches?at=soon").status_code == 422


# --- the status page


def test_while_it_is_prepared_nobody_is_held(database: Database, operator: Visitor) -> None:
    commands(database, HOLDING[0])
    told(database, missing_records=31_000)
    page = operator.get("/switches/s1")
    assert steps(page.text)["planned"] == "now"
    assert steps(page.text)["holding"] == "ahead"
    assert "Clients do not hold yet: c2 lacks 31,000 records." in said(page)
    assert LIVE in page.text and 'id="abort"' in page.text and 'id="reverse"' not in page.text


def test_while_it_holds_those_waited_for_are_named_and_the_clock_runs(
    database: Database, operator: Visitor
) -> None:
    client(database, "checkout-1")
    client(database, "checkout-2", phase="held")
    client(database, "billing-1", role="consumer")
    client(database, HOSTILE, role="")
    commands(database, *HOLDING)
    page = operator.get("/switches/s1")
    waited = rows(page, "data-client")
    assert set(waited) == {"checkout-1", HOSTILE}
    assert "active producer acme/retail/prod" in waited["checkout-1"]
    assert "not reported" in waited[HOSTILE]
    assert HOSTILE not in page.text
    assert "Waiting for 2 clients to hold." in said(page)
    assert "Aborts automatically after 1 min:" in said(page)
    assert "Continue without 2 clients" in said(page)


def test_while_it_drains_it_says_what_is_lacking(database: Database, operator: Visitor) -> None:
    commands(database, *DRAINING)
    told(database, missing_records=1_204)
    page = operator.get("/switches/s1")
    assert "c2 still lacks 1,204 records." in said(page)
    assert "12 clients 1 forced" in said(page)
    assert 'id="force"' not in page.text
    told(database, failing="c1 does not answer")
    assert "The switch cannot continue and retries: c1 does not answer" in said(operator.get("/switches/s1"))


def test_while_it_drains_each_partition_that_is_still_to_come_has_its_line(
    database: Database, operator: Visitor
) -> None:
    commands(database, *DRAINING)
    open_ones = [lacking(3, 1_150), lacking(1, 50, waits_for="transactions that were open at the mark")]
    told(database, missing_records=1_204, left=6, lacking=open_ones)
    page = operator.get("/switches/s1")
    assert list(rows(page, "data-lacking").values()) == [
        "acme/retail/prod/orders 3 1,150 distribution",
        "acme/retail/prod/orders 1 50 transactions that were open at the mark",
    ]
    assert "Records to copy 6 partitions" in said(page)
    assert "These partitions lack most; 4 more lack records." in said(page)
    assert operator.get("/switches/s1/-live").text.count("data-lacking=") == 2
    # The phase ends as soon as all records are there; the last progress is of the phase before.
    commands(database, MOVING[3])
    assert "data-lacking" not in operator.get("/switches/s1").text


def test_partitions_that_all_leaves_wait_for_are_named_by_cluster(database: Database, operator: Visitor) -> None:
    commands(database, start(drain="all_leaves"), *DRAINING[1:])
    told(database, missing_records=9, left=2, lacking=[lacking(0, 5, "c3"), lacking(0, 4)])
    page = operator.get("/switches/s1")
    shown = rows(page, "data-lacking")
    assert list(shown) == ["acme/retail/prod/orders/0 c3", "acme/retail/prod/orders/0 c2"]
    assert "acme/retail/prod/orders 0 c3 5" in shown["acme/retail/prod/orders/0 c3"]
    assert "2 partitions, each counted once per cluster" in said(page)
    assert 'id="lacking-more"' not in page.text


@some_now("found", [None, [], "all", [7], [{"stream": HOSTILE}], [lacking(1, 2, stream=None)]], now=(0, 4))
def test_partitions_told_in_another_way_are_left_out(database: Database, operator: Visitor, found: Any) -> None:
    commands(database, *DRAINING)
    told(database, missing_records=1, left=1, lacking=found)
    page = operator.get("/switches/s1")
    assert page.status_code == 200 and "data-lacking" not in page.text


def test_while_it_closes_consumers_are_waited_for(database: Database, operator: Visitor) -> None:
    client(database, "checkout-1", phase="held")
    client(database, "billing-1", role="consumer", phase="held")
    commands(database, *MOVING[:-1])
    page = operator.get("/switches/s1")
    assert set(rows(page, "data-client")) == {"billing-1"}
    assert "Waiting for 1 client to close." in said(page)


def test_a_hold_that_ran_out_is_begun_again_on_the_track(database: Database, operator: Visitor) -> None:
    commands(database, *DRAINING, to(Phase.HOLDING, ran_out=["checkout-1"]))
    page = operator.get("/switches/s1")
    assert steps(page.text) == {
        "planned": "done",
        "holding": "now",
        "draining": "ahead",
        "closing": "ahead",
        "moving": "ahead",
        "verifying": "ahead",
    }
    assert "started 2 times" in said(page)
    assert "hold expired: checkout-1" in said(page)


def test_after_the_move_it_can_be_reversed_and_not_aborted(database: Database, operator: Visitor) -> None:
    commands(database, *MOVED)
    told(database, clients=3, late=["batch-1"])
    page = operator.get("/switches/s1")
    assert steps(page.text)["verifying"] == "now"
    assert "1 client not seen on c2 yet." in said(page)
    assert 'href="/switches/plan?reverses=s1"' in page.text
    assert 'id="abort"' not in page.text and LIVE in page.text


def test_targets_that_change_are_named_and_have_a_phase(database: Database, operator: Visitor) -> None:
    commands(database, start(retargets=(retarget(),)))
    page = operator.get("/switches/s1")
    assert "retargeting" in steps(page.text)
    assert "c3 level 1: c2 → c1" in said(page)


@pytest.mark.parametrize(
    ("command", "ended"),
    [(Abort(by="operator", reason="too busy"), "Aborted"), (Abort(by="worker", reason="too slow"), "Failed")],
)
def test_an_aborted_switch_shows_its_phase_and_reason(
    database: Database, operator: Visitor, command: Abort, ended: str
) -> None:
    commands(database, *DRAINING, command)
    page = operator.get("/switches/s1")
    assert f"{ended} while draining: {command.reason}" in said(page)
    assert steps(page.text)["draining"] == "stopped"
    assert steps(page.text)["closing"] == "skipped"
    assert not any(each in page.text for each in OFFERS) and LIVE not in page.text


def test_as_it_was_it_has_no_live_parts_and_no_buttons(
    acme: Console, database: Database, operator: Visitor
) -> None:
    commands(database, *HOLDING)
    at = head(acme)
    commands(database, *COMPLETED[2:])
    page = operator.get(f"/switches/s1?at={at}")
    assert steps(page.text)["holding"] == "now"
    assert f"You are looking at position {at}" in said(page)
    assert LIVE not in page.text and "Report" not in said(page)
    assert not any(each in page.text for each in OFFERS)
    over = operator.get(f"/switches/s1?at={head(acme)}")
    assert "Report" in said(over) and not any(each in over.text for each in (*OFFERS, "moved-on"))
    before = operator.get(f"/switches/s1?at={at - 2}")
    assert before.status_code == 404
    later = operator.get(f"/switches/s1?at={at + 1000}")
    assert later.status_code == 422 and '<a href="/switches/s1">' in later.text


@some_now(
    "path", ["nothing", "nothing/-live", "nothing/-force", "nothing/-abort", "%00", "a%22b", "Nothing"], now=(0, 5)
)
def test_one_that_is_not_there_is_unknown(operator: Visitor, path: str) -> None:
    assert operator.get(f"/switches/{path}").status_code == 404
    assert operator.send(f"/switches/{path.partition('/')[0]}/-abort").status_code == 404


# --- permissions


def test_readers_see_everything_and_no_button(database: Database, viewer: Visitor) -> None:
    client(database, "checkout-1")
    commands(database, *HOLDING)
    page = viewer.get("/switches/s1")
    assert set(rows(page, "data-client")) == {"checkout-1"}
    assert not any(each in page.text for each in OFFERS)
    assert "this needs change-estate" in said(page)
    assert 'href="/switches/plan"' not in viewer.get("/switches").text
    for path in ("/switches/plan", "/switches/s1/-force", "/switches/s1/-abort"):
        assert viewer.get(path).status_code == 403
        assert viewer.send(path).status_code == 403
    commands(database, *COMPLETED[2:])
    assert not any(each in viewer.get("/switches/s1").text for each in OFFERS)


def test_tenants_see_only_where_their_own_clients_are(database: Database, owner: Visitor) -> None:
    for path in ("/switches", "/switches/s1", "/switches/plan"):
        assert owner.get(path).status_code == 403
    commands(database, *COMPLETED)
    commands(database, start("s2", source="c2", target="c3", generation=3), switch="s2")
    shown = rows(owner.get("/tenants/acme"), "data-environment")
    assert shown["prod"].endswith("c2 about to move to c3 2")
    assert "/switches" not in owner.get("/tenants/acme").text


@pytest.mark.nightly  # test_every_page asks every page without a session
def test_without_a_session_there_is_only_the_way_in(acme: Console, operator: Visitor) -> None:
    operator.client.cookies.clear()
    for path in ("/switches", "/switches/plan", "/switches/s1", "/switches/s1/-live"):
        assert operator.get(path).status_code == 401


# --- force


def test_force_counts_those_that_it_names(acme: Console, database: Database, operator: Visitor) -> None:
    client(database, "checkout-1")
    client(database, HOSTILE)
    commands(database, *HOLDING)
    form = operator.get("/switches/s1/-force")
    assert set(rows(form, "data-client")) == {"checkout-1", HOSTILE}
    sent = hidden(form)
    assert json.loads(sent["clients"]) == sorted([HOSTILE, "checkout-1"])
    wrong = operator.client.post("/switches/s1/-force", data={**sent, "confirm": "3"})
    assert wrong.status_code == 422 and "type 2, the number of clients" in said(wrong)
    assert "SwitchForced" not in str(acme.rest.ok("GET", "/events?limit=200"))
    # One client answers meanwhile, another one appears: neither is forced.
    client(database, HOSTILE, phase="held")
    client(database, "late-comer")
    for _ in range(2):
        answer = operator.client.post("/switches/s1/-force", data={**sent, "confirm": " 2 "})
        assert (answer.status_code, answer.headers["location"]) == (303, "/switches/s1")
    forced = [e for e in acme.rest.ok("GET", "/events?limit=200")["items"] if e["name"] == "SwitchForced"]
    assert [each["data"]["clients"] for each in forced] == [["checkout-1"]]
    page = operator.get("/switches/s1")
    assert set(rows(page, "data-client")) == {"late-comer"}
    assert "Forced clients checkout-1" in said(page)


def test_with_nobody_to_wait_for_there_is_nothing_to_force(database: Database, operator: Visitor) -> None:
    commands(database, *HOLDING)
    assert "there is nothing to force" in said(operator.get("/switches/s1/-force"))
    sent = {"clients": "not a list", "confirm": "0", "once": "x" * 16}
    assert operator.send("/switches/s1/-force", **sent).status_code == 422
    late = {"clients": '["x"]', "confirm": "1", "once": "x" * 16}
    commands(database, *MOVED[2:])
    assert operator.send("/switches/s1/-force", **late).status_code == 409


def test_names_of_clients_and_reasons_are_text(database: Database, operator: Visitor) -> None:
    report = {**REPORT, "late_clients": [HOSTILE], "refused_groups": [{"group": HOSTILE, "reason": HOSTILE}]}
    report["read_again"] = [{"group": HOSTILE, "stream": "acme/retail/prod/orders", "partition": 3, "records": 4}]
    commands(database, *HOLDING, Force(clients=(HOSTILE,)))
    assert HOSTILE not in operator.get("/switches/s1").text
    assert HOSTILE in said(operator.get("/switches/s1"))
    commands(database, *MOVED[2:], Complete(measured={"late": [HOSTILE]}, report=report))
    for path in ("/switches/s1", "/switches", "/tree"):
        assert HOSTILE not in operator.get(path).text
    assert f"{HOSTILE} acme/retail/prod/orders/3: 4 records" in said(operator.get("/switches/s1"))


def test_the_tree_marks_where_environments_are_active(acme: Console, database: Database, viewer: Visitor) -> None:
    page = viewer.get("/tree").text
    assert "2 active</text>" in page and "2 environments active here" in page
    commands(database, *MOVED)
    page = viewer.get("/tree").text
    assert page.count("1 active</text>") == page.count("1 environment active here") == 2
