"""Search for everything with a name that the viewer may see; on the page and in the window of Ctrl-K."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.offsets.test_offsets_page import ITEMS, ORDERS, committed
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, Visitor, said, visitor
from tests.support.database.postgres import Database


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def hits(page: httpx2.Response) -> list[tuple[str, str, str]]:
    """Return (kind, name, address) of each result."""
    found = re.findall(r'<a href="([^"]*)" data-kind="(\w+)"><span>([^<]*)</span>', page.text)
    return [(kind, html.unescape(name), html.unescape(address)) for address, kind, name in found]


def test_each_kind_is_found_by_parts_of_its_name(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok("POST", f"{API_PROD}/applications", {"name": "billing"})
    assert hits(viewer.get("/find?q=prod orders")) == [
        ("stream", "acme/retail/prod/orders", "/tenants/acme/retail/prod/orders")
    ]
    assert hits(viewer.get("/find?q=ACME")) == [
        ("tenant", "acme", "/tenants/acme"),
        ("instance", "acme/retail", "/tenants/acme/retail"),
        ("environment", "acme/retail/prod", "/tenants/acme/retail/prod"),
        ("stream", "acme/retail/prod/orders", "/tenants/acme/retail/prod/orders"),
        ("application", "acme/retail/prod/billing", "/tenants/acme/retail/prod/-applications/billing"),
    ]
    assert hits(viewer.get("/find?q=c2")) == [("cluster", "c2", "/clusters/c2")]
    assert hits(viewer.get("/find?q=%233")) == [("event", "position 3", "/timeline/3")]
    assert ("page", "Switches", "/switches") in hits(viewer.get("/find?q=swi"))
    assert ("user", "viewer", "/users/viewer") in hits(viewer.get("/find?q=view"))
    assert "Nothing that you may see has this word in its name" in said(viewer.get("/find?q=nowhere"))
    assert "all of these words" in said(viewer.get("/find?q=acme globex"))


def test_consumer_groups_are_found_by_either_name_where_their_streams_may_be_seen(
    acme: Console, viewer: Visitor, database: Database
) -> None:
    committed(database, ORDERS, "billing-" + "g" * 241)
    committed(database, ITEMS, "audit")
    found = hits(viewer.get("/find?q=billing"))
    assert found == [("group", "billing-" + "g" * 241, f"/offsets?group=billing-{'g' * 241}")]
    assert viewer.get(found[0][2]).status_code == 200
    # Found by the cluster's technical name, too.
    by_its_other_name = hits(viewer.get("/find?q=acme-retail-prod-aud"))
    assert [name for _, name, _ in by_its_other_name] == ["audit"]
    assert hits(Visitor(acme, "ada", acme="owner").get("/find?q=audit")) == []


def test_every_way_leads_somewhere(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok("POST", f"{API_PROD}/applications", {"name": "billing"})
    ways = {address for text in ("a", "o", "c", "3", "") for *_, address in hits(viewer.get(f"/find?q={text}"))}
    assert len(ways) > 15
    assert {viewer.client.get(way, follow_redirects=True).status_code for way in ways} == {200}


def test_signs_that_mean_something_to_the_database_are_signs(acme: Console, viewer: Visitor) -> None:
    for text in ("%25", "_", "%5C", "'", "%00", "%22%3E%3Cscript%3E"):
        page = viewer.get(f"/find?q={text}")
        assert page.status_code == 200 and "<script>" not in page.text.partition("<main>")[2]
    assert hits(viewer.get("/find?q=%25")) == [] and hits(viewer.get("/find?q=_")) == []


def test_a_tenant_finds_its_own_and_no_other(acme: Console) -> None:
    owner = visitor(acme, "owner")
    assert (
        hits(owner.get("/find?q=globex"))
        == hits(owner.get("/find?q=items"))
        == hits(owner.get("/find?q=c1"))
        == []
    )
    assert {kind for kind, *_ in hits(owner.get("/find?q=prod"))} == {"environment", "stream"}
    assert [name for _, name, _ in hits(owner.get("/find"))] == [
        "Overview",
        "Tenants",
        "Schemas",
        "Groups",
        "Offsets",
        "Trace",
        "Timeline",
        "Charts",
        "Account",
    ]


def test_nobody_finds_anything_without_a_login(acme: Console, viewer: Visitor) -> None:
    viewer.client.cookies.clear()
    for path in ("/find?q=acme", "/find/-hits?q=acme"):
        answer = viewer.get(path)
        assert answer.status_code == 401 and "retail" not in answer.text


def test_by_keyboard_from_any_page(acme: Console, open_page) -> None:
    page = open_page(acme, "/switches")
    page.keyboard.press("Control+k")
    expect(page.locator("#finder")).to_be_visible()
    page.keyboard.type("retail ord")
    expect(page.locator("#finder-hits a")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#finder")).to_be_hidden()
    page.keyboard.press("Control+k")
    page.keyboard.type("acme")
    expect(page.locator("#finder-hits a")).to_have_count(4)
    expect(page.locator("#finder-hits a.chosen")).to_have_attribute("data-kind", "tenant")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#finder-hits a.chosen")).to_contain_text("acme/retail/prod/orders")
    expect(page.locator("#finder-said")).to_contain_text("4 found; 4: Streams")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tenants/acme/retail/prod/orders")


@pytest.mark.nightly  # by keyboard once more
def test_enter_before_anything_is_found_leads_to_the_page_that_finds_it(acme: Console, open_page) -> None:
    page = open_page(acme, "/switches")
    page.keyboard.press("Control+k")
    expect(page.locator("#finder-hits a.chosen")).to_have_count(1)
    page.locator("#finder-text").evaluate(
        "(text) => { text.value = 'orders'; text.dispatchEvent(new Event('input')); text.form.requestSubmit(); }"
    )
    page.wait_for_url("**/find?q=orders")


@pytest.mark.nightly  # the page that finds, without a browser: the other tests of this file
def test_by_mouse_without_javascript(acme: Console, open_page) -> None:
    page = open_page(acme, "/switches", java_script_enabled=False)
    page.get_by_role("link", name="Find").click()
    page.get_by_label("Words of the name").fill("orders")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="acme/retail/prod/orders").click()
    assert page.url.endswith("/tenants/acme/retail/prod/orders")


@pytest.mark.nightly  # to be viewed; test_gallery checks that nothing overflows
def test_pictures(acme: Console, open_page, folder: Path | None) -> None:
    page = open_page(acme, "/find?q=c")
    taken(page, "find", folder)
    page.goto(f"{acme.url}/clusters")
    page.keyboard.press("Control+k")
    page.keyboard.type("retail")
    expect(page.locator("#finder-hits a")).to_have_count(3)
    taken(page, "finder", folder)
