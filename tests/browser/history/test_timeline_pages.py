"""The timeline: events that a viewer may see, one with its changes, and two positions compared."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa

from backend.queries.base.differences import Difference
from backend.queries.base.events import newest_events
from backend.queries.base.settings_before import settings_before
from backend.web.frame.timeline_view import changed as changed_thing
from tests.browser.history.test_undo import CASES, event
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, Visitor, head, rows, said, visitor
from tests.support.database.postgres import Database

PAGE = "/timeline"
ORDERS = f"{API_PROD}/streams/orders"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def changed(page: httpx2.Response) -> list[tuple[str, str]]:
    """Return (resource, change), in order."""
    found = re.findall(r'data-change="(\w+)" data-of="([^"]*)"', page.text)
    return list(dict.fromkeys((of, change) for change, of in found))


def positions(page: httpx2.Response) -> list[int]:
    return [int(found) for found in re.findall(r'data-event="(\d+)"', page.text)]


def test_events_are_listed_the_newest_first(acme: Console, viewer: Visitor) -> None:
    newest = head(acme)["position"]
    page = viewer.get(PAGE)
    assert positions(page) == list(range(newest, 0, -1))
    first = rows(page, "data-event")["1"]
    assert re.fullmatch(r"1 \d\d:\d\d:\d\d c1 added as number 1 cluster-c1 ClusterAdded admin", first)
    assert 'href="/timeline" aria-current="page"' in page.text


def test_they_are_found_by_stream_kind_and_who(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok("PATCH", ORDERS, {"partitions": 8})
    found = rows(viewer.get(f"{PAGE}?stream=tenant-acme&name=StreamDeclared"), "data-event")
    assert [text.partition("Stream ")[2].partition(" declared")[0] for text in found.values()] == [
        "acme/retail/prod/orders"
    ]
    whose = viewer.get(f"{PAGE}?actor=admin&stream=cluster-")
    assert len(positions(whose)) == 6 and "tenant-" not in said(whose).partition("Position")[2]
    nobody = viewer.get(f"{PAGE}?actor=nobody")
    assert "No events match the filter." in said(nobody) and positions(nobody) == []
    assert positions(viewer.get(f"{PAGE}?before=3")) == [2, 1]
    for before in (0, 1):
        page = viewer.get(f"{PAGE}?before={before}")
        assert "No events match the filter. Newest events" in said(page) and "hx-get" not in page.text
    for since, has_events in (("2026-01-31T12:00:00Z", True), ("2999-01-31T12:00", False)):
        page = viewer.get(f"{PAGE}?name=TenantCreated&since={since}")
        assert bool(positions(page)) is has_events and f'value="{since[:16]}:00"' in page.text
        assert f"-live?name=TenantCreated&amp;since={since[:16]}:00&amp;seen=" in page.text
        listed = acme.rest.ok("GET", f"/events?name=TenantCreated&since={since}&newest=true")["items"]
        assert [each["position"] for each in listed] == positions(page)
        assert acme.rest.ok("GET", f"/events?name=TenantCreated&since={since}")["items"] == listed[::-1]
    assert viewer.get(f"{PAGE}?since=yesterday").status_code == 422
    acme.rest.ok("POST", "/tenants", {"name": "acme2"})
    assert len(positions(viewer.get(f"{PAGE}?stream=tenant-acme"))) == 6
    assert len(positions(viewer.get(f"{PAGE}?of=tenant-acme"))) == 5


@some_now("before", ["x", "-1", "9999999", "99999999999999999999999"], now=(0, 2))
def test_a_position_that_is_none_is_told(acme: Console, viewer: Visitor, before: str) -> None:
    assert viewer.get(f"{PAGE}?before={before}").status_code == 422
    assert viewer.get(f"{PAGE}/-differences?from={before}").status_code == 422
    assert viewer.get(f"{PAGE}/{before}").status_code == 404


@pytest.mark.nightly  # pages of a list: test_rest_general
def test_many_events_come_page_by_page(acme: Console, viewer: Visitor) -> None:
    for number in range(110):
        acme.rest.ok("POST", "/tenants", {"name": f"t{number}"})
    newest = head(acme)["position"]
    page, seen = viewer.get(f"{PAGE}?name=TenantCreated"), []
    while True:
        seen += positions(page)
        earlier = re.search(r'href="(/timeline\?[^"]*before=\d+)">Earlier events', page.text)
        if earlier is None:
            break
        page = viewer.get(earlier[1].replace("&amp;", "&"))
        assert "Newest events" in said(page) and "hx-get" not in page.text
    assert len(seen) == len(set(seen)) == 112 and seen[0] == newest and seen == sorted(seen, reverse=True)


def test_an_event_says_what_it_changed_and_what_its_request_did_besides(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok("PATCH", ORDERS, {"partitions": 8})
    newest = head(acme)["position"]
    page = viewer.get(f"{PAGE}/{newest}")
    assert changed(page) == [("stream acme/retail/prod/orders", "changed")]
    assert "Partitions 4 8" in said(page) and "StreamChanged" in said(page)
    assert f'"/timeline/{newest - 1}"' in page.text and f'"/timeline/{newest + 1}"' not in page.text
    added = viewer.get(f"{PAGE}/1")
    assert ("cluster c1", "added") in changed(added) and positions(added) == [2], "it was offline at once"
    assert re.search(r"Hash [0-9a-f]{64}", said(added))


SENTENCES_OF_CHANGES = {
    "ApplicationChanged": "changed: producer quota (bytes/s): none → 9999",
    "ClusterChanged": "Connection of c1 changed: zone: none → az9",
    "EnvironmentChanged": "changed: offset mode: margin → exact; margin (seconds): 60 → 7",
    "StreamChanged": "Stream acme/retail/prod/orders changed: maximum message size:",
    "TreeReplaced": "Tree set: 2 clusters, 2 distributors; primary is c1; c3 left",
    "UserChanged": "User ada changed: role: viewer → operator; disabled: no → yes",
}


@some_now("name", SENTENCES_OF_CHANGES, now=(2, 4))
def test_a_sentence_says_what_is_otherwise_than_before(acme: Console, viewer: Visitor, name: str) -> None:
    for step in CASES[name]:
        step(acme)
    position, text = event(acme, name), SENTENCES_OF_CHANGES[name]
    assert text in rows(viewer.get(PAGE), "data-event")[str(position)]
    assert text in said(viewer.get(f"{PAGE}/{position}")).partition("Event Kind")[0]
    assert text in said(viewer.get("/audit")) and text in said(viewer.get("/tree"))


def test_a_change_and_its_undo_say_different_things(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok("PATCH", ORDERS, {"retention_ms": 4 * 86_400_000})
    position = event(acme, "StreamChanged")
    shorter = "Stream acme/retail/prod/orders changed: retention: 7 days → 4 days"
    undo = said(visitor(acme, "operator").get(f"{PAGE}/{position}/-undo"))
    assert f"“{shorter}” will be undone" in undo and "Retention 4 days 7 days" in undo
    acme.rest.ok("POST", f"/events/{position}/undo")
    found = rows(viewer.get(f"{PAGE}?name=StreamChanged"), "data-event")
    assert shorter in found[str(position)]
    longer = shorter.replace("7 days → 4", "4 days → 7")
    assert longer in found[str(event(acme, "StreamChanged"))]
    assert longer in viewer.get(f"{PAGE}/-moment").json()["said"]


def test_what_was_before_is_one_statement_for_all_events(database: Database, acme: Console) -> None:
    for partitions in (8, 9):
        acme.rest.ok("PATCH", ORDERS, {"partitions": partitions})
    for name in ("ClusterChanged", "EnvironmentChanged"):
        CASES[name][0](acme)
    asked: list[str] = []
    with database.engine.connect() as connection:
        sa.event.listen(connection, "before_cursor_execute", lambda *given: asked.append(given[2]))
        found = newest_events(connection, head(acme)["position"], 60)
        asked.clear()
        before = settings_before(connection, found)
        assert len(asked) == 1
        assert sorted(each["partitions"] for each in before.values() if "partitions" in each) == [4, 8]
        assert len(before) == 4 and all(each["name"] in "c1 prod" for each in before.values() if "name" in each)
        assert settings_before(connection, [each for each in found if each.name == "ClusterAdded"]) == {}
        assert len(asked) == 1


def test_two_positions_are_compared_both_ways(acme: Console, viewer: Visitor) -> None:
    before = head(acme)["position"]
    acme.rest.ok("PATCH", ORDERS, {"partitions": 8})
    acme.rest.ok("POST", "/tenants", {"name": "initech"})
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    acme.rest.ok("PATCH", "/trees/main/distributors/c3/1", {"paused": True})
    page = viewer.get(f"{PAGE}/-differences?from={before}")
    assert changed(page) == [
        ("distributor c1:2", "changed"),
        ("settings of distributor c3:1", "added"),
        ("tenant initech", "added"),
        ("stream acme/retail/prod/orders", "changed"),
    ]
    assert "Target c2 c3" in said(page) and "Partitions 4 8" in said(page)
    back = viewer.get(f"{PAGE}/-differences?from={before + 3}&to={before}")
    assert "Target c3 c2" in said(back) and ("tenant initech", "removed") in changed(back)
    nothing = viewer.get(f"{PAGE}/-differences?from={before}&to={before}")
    assert "The configuration is the same at both positions." in said(nothing)
    found = acme.rest.ok("GET", f"/events/differences?from={before}")
    assert [(each["kind"], each["name"], each["change"]) for each in found["items"]] == [
        ("distributor", "c1:2", "changed"),
        ("settings of distributor", "c3:1", "added"),
        ("tenant", "initech", "added"),
        ("stream", "acme/retail/prod/orders", "changed"),
    ]
    assert found["items"][3]["before"] == {"partitions": 4} and found["items"][3]["after"] == {"partitions": 8}
    first = acme.rest.ok("GET", f"/events/differences?from={before}&limit=3")
    rest = acme.rest.ok("GET", f"/events/differences?from={before}&limit=3&cursor={first['next_cursor']}")
    assert first["items"] + rest["items"] == found["items"] and rest["next_cursor"] is None


def test_a_thing_that_came_and_went_in_between_is_no_difference(acme: Console, viewer: Visitor) -> None:
    before = head(acme)["position"]
    acme.rest.ok("POST", f"{API_PROD}/streams", {"name": "brief", "partitions": 1})
    acme.rest.ok("DELETE", f"{API_PROD}/streams/brief?confirm=acme/retail/prod/brief")
    acme.rest.ok("PATCH", ORDERS, {"retention_ms": 1000})
    acme.rest.ok("PATCH", ORDERS, {"retention_ms": 604_800_000})
    assert changed(viewer.get(f"{PAGE}/-differences?from={before}")) == []


def test_secrets_of_clusters_are_shown_nowhere(acme: Console, viewer: Visitor) -> None:
    before = head(acme)["position"]
    properties = {"sasl.username": "u", "sasl.password": "${env:C1_PASSWORD}"}
    acme.rest.ok("PATCH", "/clusters/c1", {"properties": properties, "accept_offline": True})
    page = viewer.get(f"{PAGE}/-differences?from={before}")
    assert "sasl.password" in page.text and "***" in page.text
    acme.rest.ok(
        "PATCH",
        "/clusters/c1",
        {"properties": {**properties, "sasl.password": "${env:C1_OTHER}"}, "accept_offline": True},
    )
    other = viewer.get(f"{PAGE}/{head(acme)['position']}")
    assert "***, another one" in said(other).partition("Stored event")[0]
    assert "C1_PASSWORD" not in page.text + other.text.partition("Stored event")[0]


def test_a_tenant_sees_its_own_events_and_no_other(acme: Console) -> None:
    owner = visitor(acme, "owner")
    page = owner.get(PAGE)
    streams = {text.split()[-3] for text in rows(page, "data-event").values()}
    assert streams == {"tenant-acme"} and "Compare" not in page.text
    mine, others = positions(page)[0], set(range(1, head(acme)["position"] + 1)) - set(positions(page))
    assert owner.get(f"{PAGE}/{mine}").status_code == 200 and others
    assert {owner.get(f"{PAGE}/{position}").status_code for position in others} == {404}
    assert owner.get(f"{PAGE}/-differences?from=1").status_code == 403
    for before in ("99999999", "x", "0"):
        answer = owner.get(f"{PAGE}?before={before}")
        assert answer.status_code == 200 and f"{head(acme)['position']}" not in said(answer).replace(":", "")[:400]
    assert {owner.get(f"/find?q=%23{position}").text.count('data-kind="event"') for position in others} == {0}
    assert owner.get(f"/find?q=%23{mine}").text.count('data-kind="event"') == 1
    assert positions(owner.get(f"{PAGE}?stream=tenant-globex")) == []
    assert positions(owner.get(f"{PAGE}/-live?stream=tenant-globex")) == []


def test_words_of_others_are_text(acme: Console, viewer: Visitor) -> None:
    page = viewer.get(f"{PAGE}?stream=<script>&actor=%22><b>&name=<i>")
    assert (
        page.status_code == 200 and "<script>" not in page.text.partition("<main>")[2] and "<b>" not in page.text
    )
    assert viewer.get(f"{PAGE}?stream=%00").status_code == 200


@pytest.mark.nightly  # the same script follows in test_clusters_pages and test_tree_page
def test_it_follows_by_itself(acme: Console, open_page) -> None:
    page = open_page(acme, f"{PAGE}?name=TenantCreated")
    acme.rest.ok("POST", "/tenants", {"name": "initech"})
    eventually(lambda: "initech" in page.inner_text("#events tbody tr:nth-child(2)"), "the event is shown")
    acme.rest.ok("POST", "/tenants", {"name": "umbrella"})
    eventually(lambda: "umbrella" in page.inner_text("#events tbody tr:nth-child(2)"), "and the next one")
    page.get_by_role("link", name=f"{head(acme)['position']:,}").click()
    assert page.inner_text("h1") == "Tenant umbrella created"


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, open_page, folder: Path | None) -> None:
    acme.rest.ok("PATCH", ORDERS, {"partitions": 8})
    page = open_page(acme, PAGE)
    taken(page, "timeline", folder)
    page.goto(f"{acme.url}/timeline/{head(acme)['position']}")
    taken(page, "event", folder)
    page.goto(f"{acme.url}/timeline/-differences?from=6")
    taken(page, "differences", folder)


def test_as_long_as_nothing_happens_nothing_is_sent(acme: Console, viewer: Visitor) -> None:
    newest = head(acme)["position"]
    assert viewer.get(f"{PAGE}/-live?seen={newest}").status_code == 204
    assert viewer.get(f"{PAGE}/-live?seen={newest - 1}").status_code == 200


def test_long_values_are_shown_from_where_they_differ() -> None:
    one, other = (f"{'a' * 500}{end}{'b' * 500}" for end in "xy")
    difference = Difference(kind="tree", name="main", before={"root": one}, after={"root": other})
    (field,) = changed_thing(difference).fields
    assert field.before != field.after and field.before.startswith("…aaa") and len(field.before) == 400
