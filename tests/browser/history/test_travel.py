"""Time travel: pages as of an earlier position, links between them, and the slider that leads there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import expect

from backend import web
from backend.web.frame.travel import Travel
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, PROD, Visitor, head, rows, said, visitor
from tests.support.console.zoning import begin, reports
from tests.support.database.postgres import Database

OF_NOW = re.compile(r"/-|/live$|/static|^/login|^/logout|^/account|^/find|^/switches/plan")
"""Forms, blocks that refresh, and pages about the viewer."""
OBSERVED = {
    "/": "is /overview",
    "/overview": "a verdict on the present; of the past there are the tree, the timeline and charts",
    "/drills": "a model, and no estate",
    "/charts": "values by time; they end now",
    "/groups": "observations of a few seconds ago; of earlier ones the charts have the lag",
    "/clusters/{cluster}/replication/what-if": "what would be if a broker died now",
    "/tree/edit": "a form",
    "/timeline/{position}": "an event, which is the same for ever",
}


def _pages() -> list[APIRoute]:
    names = [each.name for each in pkgutil.walk_packages(web.__path__, "backend.web.")]
    modules = (importlib.import_module(name) for name in names)
    routers = [each.router for each in modules if hasattr(each, "router")]
    found = [each for router in routers for each in router.routes if isinstance(each, APIRoute)]
    return [each for each in found if "GET" in each.methods and not OF_NOW.search(each.path)]


def test_every_page_can_be_shown_as_it_was_or_is_known_to_show_what_is_not_kept() -> None:
    travels = {each.path for each in _pages() if "at" in [it.name for it in each.dependant.query_params]}
    stays = {each.path for each in _pages()} - travels
    assert {"/tree", "/clusters/{cluster}", "/tenants", "/users/{user}", "/timeline"} <= travels
    unknown = {path for path in stays if not any(path == it or path.startswith(f"{it}/") for it in OBSERVED)}
    assert unknown == set()
    assert not travels & OBSERVED.keys()


@pytest.fixture
def changed(acme: Console) -> dict[str, Any]:
    """Create a tenant's resources at an earlier position, and change them afterwards."""
    before = head(acme)["position"]
    acme.rest.ok("PATCH", API_PROD, {"margin_seconds": 7})
    acme.rest.ok("POST", f"{API_PROD}/streams", {"name": "later", "partitions": 3})
    acme.rest.ok("POST", "/users", {"name": "newcomer", "role": "viewer", "tenants": {"acme": "member"}})
    return {"before": before}


def test_pages_of_a_tenant_are_as_they_were(acme: Console, changed: dict[str, Any]) -> None:
    viewer, at = visitor(acme, "viewer"), f"?at={changed['before']}"
    assert "later" in rows(viewer.get(PROD), "data-stream")
    page = viewer.get(PROD + at)
    assert list(rows(page, "data-stream")) == ["orders"] and "Margin 60 s" in said(page)
    assert f"You are looking at position {changed['before']}" in said(page)
    assert "Declare stream" not in said(page) and 'hx-trigger="every' not in page.text
    assert viewer.get(f"{PROD}/later{at}").status_code == 404
    stream = viewer.get(f"{PROD}/orders{at}")
    assert stream.status_code == 200 and "Delete" not in said(stream) and "hx-get" not in stream.text
    assert "newcomer" in said(viewer.get("/tenants/acme")) and "newcomer" not in said(
        viewer.get(f"/tenants/acme{at}")
    )
    assert "newcomer" not in said(viewer.get(f"/users{at}"))
    assert viewer.get(f"/users/newcomer{at}").status_code == 404
    assert viewer.get(f"/tenants/acme/-grants{at}").status_code == 200
    assert rows(viewer.get("/tenants?at=0"), "data-tenant") == {}
    assert viewer.get("/tenants/acme?at=0").status_code == 404


def test_forms_are_not_shown_in_the_past(acme: Console) -> None:
    admin = Visitor(acme, "root", role="admin")
    at = f"?at={head(acme)['position']}"
    for path in ("/users", "/users/root"):
        assert "Create user" in said(admin.get("/users")) or "Set" in said(admin.get(path))
        assert 'method="post" action="/users' not in admin.get(path + at).text
    assert "Create tenant" not in said(admin.get(f"/tenants{at}"))


def test_links_lead_on_into_the_same_past(acme: Console) -> None:
    viewer, at = visitor(acme, "viewer"), head(acme)["position"] - 1
    page = viewer.get(f"/tenants?at={at}")
    links = re.findall(r'<a\s[^>]*href="(/[^"]*)"[^>]*>', page.text)
    assert f"/tenants/acme?at={at}" in links and f"/clusters?at={at}" in links
    assert f"/tenants?at={at - 1}" in links  # one earlier
    assert "/tenants" in links  # back to now
    assert {each for each in links if f"at={at}" not in each} == {
        "/tenants",
        f"/tenants?at={at - 1}",
        f"/tenants?at={at + 1}",
    }
    assert "stylesheet" in page.text and not re.search(r"<link[^>]*\?at=", page.text)


def test_a_page_of_what_is_observed_says_that_it_is_of_now(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    assert "This page shows the present , not position 3" in said(viewer.get("/drills?at=3"))
    assert "This page shows the present" not in said(viewer.get("/drills"))


def epochs(page: httpx2.Response) -> dict[str, str]:
    """Return the three epochs of a page, by name."""
    return dict(re.findall(r'data-epoch="(\w+)"><dt>\w+</dt><dd class="value">(\d+)<', page.text))


def test_route_epochs_are_as_they_were_and_nodes_are_not_told(acme: Console, database: Database) -> None:
    viewer = visitor(acme, "viewer")
    begin(database, 3, committed=1)
    before = head(acme)["position"]
    begin(database, 2, committed=2)
    reports(acme)
    assert epochs(viewer.get("/zones")) == {"current": "5", "fenced": "3", "committed": "2"}
    page = viewer.get(f"/zones?at={before}")
    assert epochs(page) == {"current": "3", "fenced": "1", "committed": "1"}
    assert f"You are looking at position {before}" in said(page) and "hx-get" not in page.text
    assert "az1" not in said(page) and "Only epochs have a history here" in said(page)
    assert set(epochs(viewer.get("/zones?at=1")).values()) == {"0"}


def test_the_audit_is_of_what_had_been_done_by_then(acme: Console) -> None:
    first = visitor(acme, "viewer")
    before = head(acme)["position"]
    acme.rest.ok("POST", "/users", {"name": "arrived", "role": "viewer"})
    Visitor(acme, "latest", "viewer")
    now, then = said(first.get("/audit")), first.get(f"/audit?at={before}")
    assert "arrived" in now and "latest" in now and now.count("Logged in") == 2
    assert f"You are looking at position {before}" in said(then)
    assert "arrived" not in said(then) and "latest" not in said(then)
    positions = [int(each) for each in re.findall(r'id="event-(\d+)"', then.text)]
    assert positions and max(positions) == before
    assert f'name="at" value="{before}"' in then.text and "audit/export" not in then.text
    assert re.findall(r'id="event-(\d+)"', first.get("/audit?at=1&workers=yes").text) == ["1"]
    assert 'id="event-' not in first.get("/audit?at=0").text
    for zone in ("", "Z", "%2B14:00", "-14:00"):
        ends = f"since=0001-01-01T00:00:00{zone}&until=9999-12-31T23:59:59{zone}"
        assert f'id="event-{before}"' in first.get(f"/audit?at={before}&{ends}").text


def test_the_timeline_ends_at_the_position(acme: Console) -> None:
    page = visitor(acme, "viewer").get("/timeline?at=2")
    assert re.findall(r'href="/timeline/(\d+)\?at=2"', page.text) == ["2", "1"]
    assert "hx-get" not in page.text


def test_a_tenant_does_not_learn_how_long_the_log_is(acme: Console, changed: dict[str, Any]) -> None:
    owner = Visitor(acme, "ada", acme="owner")
    newest = head(acme)["position"]
    pages = [owner.get(f"/tenants/acme?at={at}") for at in (newest, newest + 1, newest + 1000, 10**39)]
    assert {each.status_code for each in pages} == {200}
    assert len({re.sub(r"\d{2,}", "N", said(each).partition("Access to")[2]) for each in pages}) == 1
    assert f"of {newest}" not in said(pages[0])
    assert owner.get(f"/timeline?at={'9' * 39}").status_code == 200
    assert {owner.get(f"/timeline/-live?seen={newest + n}").status_code for n in (-1, 0, 1)} == {200}
    moment = owner.get("/timeline/-moment?position=999999").json()
    assert moment["newest"] < newest  # that of its own newest event
    assert "globex" not in owner.get(f"/timeline/-moment?position={changed['before']}").text


def test_what_was_not_there_yet_leads_back_to_now(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get("/tenants/globex?at=1")
    assert page.status_code == 404
    assert "You are looking at position 1" in said(page) and 'href="/tenants/globex" data-now' in page.text
    assert "You are looking at" not in said(viewer.get("/tenants/nobody"))


@some_now("at", ["x", "-1", "1.5", "%00", "1;2"], now=(0,))
def test_what_is_no_position_is_refused(acme: Console, at: str) -> None:
    viewer = visitor(acme, "viewer")
    for path in ("/tenants", "/tenants/acme", "/users", "/timeline", "/clusters", "/tree"):
        page = viewer.get(f"{path}?at={at}")
        assert page.status_code == 422 and "whole number" in said(page)


def test_only_links_of_the_console_carry_a_position() -> None:
    here = Travel("/tenants", (), "5", True)
    page = (
        '<link href="/static/a.css"><a href="https://kafka.apache.org/x">k</a><a class="b" href="/a?x=1#c">a</a>'
        '<a href="/b#c">b</a><a href="/c" data-now>c</a><a href="/d?at=4">d</a><a href="#e">e</a>'
        '<a href="/f?format=4">f</a><a href="/api/v1/g">g</a>'
    )
    assert here.kept_by_links(page) == (
        '<link href="/static/a.css"><a href="https://kafka.apache.org/x">k</a><a class="b" '
        'href="/a?x=1&amp;at=5#c">a</a>'
        '<a href="/b?at=5#c">b</a><a href="/c" data-now>c</a><a href="/d?at=4">d</a><a href="#e">e</a>'
        '<a href="/f?format=4&amp;at=5">f</a><a href="/api/v1/g">g</a>'
    )
    assert here.of_now.kept_by_links(page) == page


def test_the_slider_tells_what_happened_there_and_leads_there(acme: Console, open_page: Any) -> None:
    page = open_page(acme, "/tenants")
    page.locator("#travel summary").click()
    slider = page.locator("#travel-slider")
    expect(slider).to_be_focused()
    expect(page.locator("#travel-moment")).to_contain_text(f"{head(acme)['position']}, ")
    slider.press("Home")
    expect(page.locator("#travel-moment")).to_contain_text("Before the first event")
    slider.press("ArrowRight")
    expect(page.locator("#travel-moment")).to_contain_text("1, ")
    slider.press("Enter")
    expect(page.locator("#past")).to_contain_text("You are looking at position 1 of")
    page.locator("nav[aria-label=Pages] a", has_text="Clusters").click()
    expect(page.locator("#past")).to_contain_text("You are looking at position 1 of")
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator("#past")).to_have_count(0)
    page.go_back()
    expect(page.locator("#past")).to_contain_text("position 1")


def test_without_javascript_a_position_is_typed(acme: Console, open_page: Any) -> None:
    page = open_page(acme, "/users", java_script_enabled=False)
    page.locator("#travel summary").click()
    page.locator("#travel-at").fill("2")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#past")).to_contain_text("You are looking at position 2 of")
