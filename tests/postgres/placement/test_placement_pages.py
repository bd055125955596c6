"""The pages of placements: the list, a plan in each of its states, and who may see them."""

from __future__ import annotations

import json

import pytest

from backend.deciders import PLACEMENT
from backend.domain.placement.placements import RecordPlan
from backend.placement.verify import DETAILS
from backend.web.placement.placement_view import RULES
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.placing import GROWN, MIB, ask, brokers, documents, failed, partition, planned
from tests.support.console.visitors import Visitor, record, rows, said, visitor
from tests.support.database.postgres import Database

HOSTILE = '<b>"x"&</b>'
LIVE = 'hx-get="/placements/p1/-live"'
SMALL = {
    "brokers": brokers("az1", "az2", "az3"),
    "partitions": [partition("orders", number, 1, 2, size_bytes=3 * MIB) for number in range(3)],
}


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def head(console: Console) -> int:
    position: int = console.rest.ok("GET", "/events/head")["position"]
    return position


# --- the list


def test_without_placements_the_page_says_what_to_do_next(console: Console, viewer: Visitor) -> None:
    page = viewer.get("/placements")
    assert "No plans yet. Create a plan to balance" in said(page)
    assert 'href="/placements/-new"' not in page.text
    assert "this needs change-estate" in said(page)
    assert 'href="/placements/-new"' in visitor(console, "operator").get("/placements").text


def test_without_clusters_there_is_nothing_to_plan_for(console: Console) -> None:
    assert "no cluster to plan for" in said(visitor(console, "viewer").get("/placements"))


def test_the_list_has_the_newest_first_with_moves_against_the_bound(database: Database, viewer: Visitor) -> None:
    ask(database, "p1")
    planned(database, "p1", documents(GROWN))
    ask(database, "p2", "c2")
    failed(database, "p2", "replicas are being moved (orders-3): wait until the reassignment ends, or cancel it")
    ask(database, "p3", "c3")
    page = viewer.get("/placements")
    shown = rows(page, "data-placement")
    assert list(shown) == ["p3", "p2", "p1"]
    assert "c3 Computing plan" in shown["p3"]
    assert "a worker is computing a plan for c3, for" in shown["p3"]
    assert "c2 Planning failed" in shown["p2"]
    assert shown["p2"].endswith(
        "– – replicas are being moved (orders-3): wait until the reassignment ends, or cancel it"
    )
    moves = documents(GROWN).plan["moves"]
    assert "c1 Planned" in shown["p1"]
    assert shown["p1"].endswith(f"{moves} {moves} {moves} replica moves (the minimum)")
    assert 'aria-current="page">Placements</a>' in page.text


def test_the_list_as_it_was(acme: Console, database: Database, viewer: Visitor) -> None:
    ask(database, "p1")
    at = head(acme)
    planned(database, "p1", documents(SMALL))
    page = viewer.get(f"/placements?at={at}")
    assert "Computing plan" in rows(page, "data-placement")["p1"]
    assert f"/placements/p1?at={at}" in page.text
    assert f"You are looking at position {at} of {at + 1}: the configuration of that time." in said(page)
    assert viewer.get(f"/placements?at={at + 100}").status_code == 422
    assert viewer.get("/placements?at=soon").status_code == 422


def test_every_rule_of_a_plan_has_words() -> None:
    assert RULES.keys() == DETAILS.keys()


# --- one placement


def test_while_it_is_computed_the_page_asks_for_news(database: Database, viewer: Visitor) -> None:
    ask(database, "p1", target_brokers=(1, 2, 3, 7), replication_factors={"orders": 3}, no_leaders=(7,))
    page = viewer.get("/placements/p1")
    assert LIVE in page.text
    assert "A worker is computing a plan for c1, for" in said(page)
    assert "Target brokers 1-3, 7 Replication factor orders: 3" in said(page)
    assert 'id="map"' not in page.text
    assert "/reassignment" not in page.text
    news = viewer.get("/placements/p1/-live")
    assert "Computing plan: Placement 1 · c1 · Treeline" in news.text
    assert "HX-Refresh" not in news.headers
    planned(database, "p1", documents(SMALL))
    assert viewer.get("/placements/p1/-live").headers["HX-Refresh"] == "true"
    assert LIVE not in viewer.get("/placements/p1").text


def test_a_plan_shows_its_figures_its_brokers_and_what_changes(database: Database, viewer: Visitor) -> None:
    kept = documents(SMALL)
    ask(database, "p1")
    planned(database, "p1", kept)
    page = viewer.get("/placements/p1")
    text = said(page)
    assert "Planned 2 replica moves (the minimum)." in text
    assert "Replica moves 2 replicas copied to" in text
    assert "Minimum moves 2" in text
    assert "Above minimum 0" in text
    assert "Data to move 6.0 MiB" in text
    assert "Replicas per broker 2 before: 0 to 3" in text
    shown = rows(page, "data-broker")
    assert list(shown) == ["1", "2", "3"]
    assert shown["3"] == "3 new az3 0 0 2 2 0 1"
    changes = rows(page, "data-partition")
    changed = [row for row, was in zip(kept.plan["partitions"], SMALL["partitions"], strict=True)
               if row["replicas"] != was["replicas"]]  # fmt: skip
    assert list(changes) == [f"orders-{row['partition']}" for row in changed]
    assert f"{len(changes)} of 3" in text


def test_the_grids_show_each_replica_and_what_it_does(database: Database, viewer: Visitor) -> None:
    kept = documents(SMALL)
    ask(database, "p1")
    planned(database, "p1", kept)
    page = viewer.get("/placements/p1").text
    assert 'data-exact="true"' in page
    before, _, after = page.partition('data-side="after"')
    assert before.count("<title>orders ") == 6
    assert before.count(", leaves</title>") == 2
    assert after.count(", arrives</title>") == 2
    assert before.count("no replicas</text>") == 1
    assert "no replicas</text>" not in after
    for row in kept.plan["partitions"]:
        first, *others = row["replicas"]
        assert f"<title>orders {row['partition']} on broker {first}: leads" in after
        assert all(f"<title>orders {row['partition']} on broker {each}: follows" in after for each in others)


def test_the_reassignment_there_and_back_is_a_link(database: Database, viewer: Visitor) -> None:
    ask(database, "p1")
    planned(database, "p1", documents(SMALL))
    page = viewer.get("/placements/p1")
    for which, replicas in (("", {1, 2, 3}), ("?which=present", {1, 2})):
        link = f"/api/v1/placements/p1/reassignment{which}"
        assert f'href="{link}"' in page.text
        # By the session of the browser that shows the page.
        found = json.loads(viewer.get(link).text)["partitions"]
        assert {each for row in found for each in row["replicas"]} == replicas
    assert 'id="again"' not in page.text


def test_what_cannot_be_kept_is_said_with_its_partitions(database: Database, viewer: Visitor) -> None:
    ask(database, "p1", replication_factor=4)
    planned(database, "p1", documents({**SMALL, "replication_factor": 4}))
    text = said(viewer.get("/placements/p1"))
    assert "violations: too few brokers for the replication factor (3 partitions)" in text
    assert "Violations Too few brokers for the replication factor: 3 partitions" in text
    assert "4 replicas need 4 brokers, and only 3 may hold replicas" in text
    assert "orders-0, orders-1, orders-2" in text
    assert "No changes: all replicas are on their target brokers" in text


def test_a_placement_that_failed_says_why(database: Database, viewer: Visitor, acme: Console) -> None:
    ask(database, "p1")
    failed(database, "p1", f"brokers are unavailable ({HOSTILE})")
    page = viewer.get("/placements/p1")
    assert f"Planning failed Brokers are unavailable ({HOSTILE})." in said(page)
    assert HOSTILE not in page.text
    assert 'data-tone="bad"' in page.text
    assert "/reassignment" not in page.text
    assert LIVE not in page.text
    again = visitor(acme, "operator").get("/placements/p1")
    assert 'href="/placements/-new?like=p1"' in again.text


def test_names_of_topics_and_racks_are_text(database: Database, viewer: Visitor) -> None:
    question = {
        "brokers": brokers(HOSTILE, "az2"),
        "partitions": [partition(HOSTILE, number, 1) for number in range(3)],
    }
    ask(database, "p1", excluded_topics=(HOSTILE,))
    planned(database, "p1", documents(question))
    page = viewer.get("/placements/p1")
    assert HOSTILE not in page.text
    assert f"{HOSTILE} 0" in said(page)


def test_a_placement_as_it_was(acme: Console, database: Database, viewer: Visitor) -> None:
    ask(database, "p1")
    at = head(acme)
    planned(database, "p1", documents(SMALL))
    page = viewer.get(f"/placements/p1?at={at}")
    assert "Computing plan" in said(page)
    assert LIVE not in page.text
    assert 'id="map"' not in page.text
    assert viewer.get(f"/placements/p1?at={at + 1}").text.count('id="map"') == 1
    assert viewer.get(f"/placements/p1?at={at - 1}").status_code == 404
    assert viewer.get("/placements/p1?at=soon").status_code == 422


def test_a_plan_whose_documents_are_gone_still_has_a_page(database: Database, viewer: Visitor) -> None:
    ask(database, "p1")
    kept = documents(SMALL)
    summary = {"moves": 7, "lower_bound": 5}
    record(database, RecordPlan(digest=kept.plan["digest"] + "0", summary=summary), PLACEMENT, "placement-p1")
    text = said(viewer.get("/placements/p1"))
    assert "7 replica moves (minimum 5)." in text
    assert "The details of this plan have been deleted" in text


def test_a_large_plan_is_shown_in_part(database: Database, viewer: Visitor) -> None:
    racks = [f"az{each % 3}" for each in range(240)]
    question = {
        "brokers": brokers(*racks),
        "partitions": [partition("t", number, *range(1, 4)) for number in range(700)],
    }
    ask(database, "p1")
    planned(database, "p1", documents(question))
    page = viewer.get("/placements/p1")
    assert 'data-exact="false"' in page.text
    assert len(rows(page, "data-broker")) == len(rows(page, "data-partition")) == 200
    assert "Showing the 200 brokers that change most." in said(page)
    assert "Showing the first 200; the reassignment (JSON) has all of them." in said(page)
    assert len(page.text) < 400_000


# --- who sees it


@some_now("path", ["/placements/p9", "/placements/p9/-live", "/placements/%00", "/placements/-x"], now=(0, 2))
def test_an_unknown_placement_is_said_to_be(acme: Console, viewer: Visitor, path: str) -> None:
    answer = viewer.get(path)
    assert answer.status_code == 404
    assert "there is no placement" in said(answer)
    assert visitor(acme, "owner").get(path).status_code == 403


def test_who_may_not_read_the_estate_sees_no_placements(acme: Console, database: Database) -> None:
    ask(database, "p1")
    owner = visitor(acme, "owner")
    for path in ("/placements", "/placements/p1", "/placements/p1/-live", "/placements/-new"):
        answer = owner.get(path)
        assert answer.status_code == 403
        assert "c1" not in said(answer)
    assert "/placements" not in owner.get("/tenants/acme").text


def test_without_a_session_there_is_only_the_way_in(acme: Console, viewer: Visitor) -> None:
    viewer.client.cookies.clear()
    for path in ("/placements", "/placements/p1", "/placements/p1/-live", "/placements/-new"):
        assert viewer.get(path).status_code == 401
