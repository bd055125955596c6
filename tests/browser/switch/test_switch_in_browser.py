"""A switch by mouse and keyboard in real Chromium: planned, typed, started, watched, aborted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from backend.domain.switch.cluster_switch import Phase
from tests.support.console.consoles import Console
from tests.support.console.switching import COMPLETED, all_online, client, clusters_say, commands, to, told
from tests.support.database.postgres import Database


def test_plan_type_start_watch_and_abort(
    acme: Console, database: Database, open_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    all_online(database)
    client(database, "checkout-1")
    with clusters_say(monkeypatch):
        page = open_page(acme, "/switches")
        page.get_by_role("link", name="Plan switch").click()
        page.get_by_label("From").select_option("c1")
        page.get_by_label("To", exact=True).select_option("c2")
        page.get_by_label("Scope").fill("acme/retail")
        page.get_by_role("button", name="Create plan").click()
        expect(page.locator("#sum")).to_have_text("Ready to start")
        expect(page.locator("[data-gate][data-tone='bad']")).to_have_count(0)
        expect(page.locator("#clients li")).to_have_text(["checkout-1"])
        stays_in_sight(page)
        word = page.get_by_label("Type c1 to start")
        word.fill("c2")
        page.get_by_role("button", name="Start switch").click()
        # The form is not even submitted, so the browser's history stays clean.
        expect(word).to_be_focused()
        assert word.evaluate("each => each.validity.patternMismatch")
        # The browser's message ends with the title.
        expect(word).to_have_attribute("title", "Type c1, the cluster that clients leave")
        assert acme.rest.ok("GET", "/switches")["items"] == []
        page.keyboard.press("Control+A")
        page.keyboard.type("c1")
        page.keyboard.press("Enter")
        expect(page.locator("#state")).to_have_text("Preparing")
    switch = page.url.rpartition("/")[2]
    page.evaluate("window.sameDocument = true")
    expect(page.locator("#live")).to_have_text("live")
    commands(database, to(Phase.HOLDING, missing_records=3), switch=switch)
    expect(page.locator("#state")).to_have_text("Holding")
    expect(page).to_have_title("Holding: Switch 1 · c1 → c2 (acme/retail/prod) · Treeline")
    expect(page.locator("[data-client='checkout-1']")).to_be_visible()
    held = page.locator("#held")
    before = held.inner_text()
    expect(held).not_to_have_text(before)
    client(database, "checkout-1", phase="held")
    expect(page.locator("[data-client]")).to_have_count(0)
    commands(database, to(Phase.DRAINING, clients=1), switch=switch)
    told(database, switch, missing_records=77)
    expect(page.locator("#waits-for")).to_have_text("c2 still lacks 77 records.")
    assert page.evaluate("window.sameDocument")
    # Going back to the plan and forward again changes nothing.
    page.go_back()
    expect(page.get_by_role("heading", name="Plan switch")).to_be_visible()
    page.go_forward()
    abort = page.get_by_role("link", name="Abort")
    abort.focus()
    page.keyboard.press("Enter")
    # Open, leave, and open again: nothing happens before it is confirmed.
    expect(page.locator("#verdict")).to_contain_text("Clients of acme/retail/prod continue on c1")
    page.get_by_role("link", name="Back to switch").click()
    expect(page.locator("#state")).to_have_text("Draining")
    page.get_by_role("link", name="Abort").click()
    page.get_by_role("button", name="Abort switch").click()
    expect(page.locator("#state")).to_have_text("Aborted")
    expect(page.locator("#cockpit[hx-get]")).to_have_count(0)
    assert acme.rest.ok("GET", f"/switches/{switch}")["state"] == "aborted"
    assert len(acme.rest.ok("GET", "/switches")["items"]) == 1


def stays_in_sight(page: Page) -> None:
    """Check that the decision is seen from the plan's end, and that it does not cover what has the focus."""
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("button", name="Start switch")).to_be_in_viewport(ratio=1)
    way_out = page.get_by_role("link", name="Wait for all leaves")
    way_out.focus()
    bar, link = page.locator("#decision").bounding_box(), way_out.bounding_box()
    assert bar is not None and link is not None
    assert link["y"] >= bar["y"] + bar["height"], (bar, link)


@pytest.mark.nightly  # the first test watches the same page to its end
def test_the_report_comes_without_a_reload_and_the_page_is_quiet_then(
    acme: Console, database: Database, open_page: Callable[..., Page]
) -> None:
    commands(database, *COMPLETED[:2])
    page = open_page(acme, "/switches/s1")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.sameDocument = true")
    commands(database, *COMPLETED[2:])
    expect(page.locator("#report")).to_contain_text("checkout-7")
    expect(page.locator("#live")).to_be_hidden()
    # On a busy machine the page receives its last answer only now.
    page.evaluate(
        "document.body.dispatchEvent(new CustomEvent('htmx:afterRequest', {detail: {successful: true}}))"
    )
    expect(page.locator("#live")).to_be_hidden()
    assert page.evaluate("window.sameDocument")
    page.get_by_role("link", name="Reverse").click()
    expect(page.get_by_role("heading", name="Plan reverse switch")).to_be_visible()


@pytest.mark.nightly  # pages without JavaScript: test_tree_edit_in_browser, test_travel
def test_without_javascript_it_reloads_itself(
    acme: Console, database: Database, open_page: Callable[..., Page]
) -> None:
    commands(database, *COMPLETED[:2])
    page = open_page(acme, "/switches/s1", java_script_enabled=False)
    expect(page.locator("#state")).to_have_text("Holding")
    commands(database, *COMPLETED[2:])
    expect(page.locator("#state")).to_have_text(re.compile("Completed"), timeout=30_000)
