"""Tables and times in Chromium: in place, by the keyboard, and in the viewer's own time zone."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, PROD


def test_a_click_sorts_in_place_and_keeps_the_filter_that_is_typed(
    acme: Console, open_page: Callable[..., Page]
) -> None:
    for number in (1, 2, 10, 11):
        acme.rest.ok("POST", f"{API_PROD}/streams", {"name": f"s{number}", "partitions": number})
    page = open_page(acme, PROD, timezone_id="Asia/Tokyo")
    names = page.locator("#stream-table tbody th")
    expect(names).to_have_text(["orders", "s1", "s2", "s10", "s11"])
    page.evaluate("window.isSamePage = true")
    filter_field = page.get_by_role("searchbox", name="Filter streams")
    filter_field.press_sequentially("s1")
    expect(names).to_have_text(["s1", "s10", "s11"])
    expect(page).to_have_url(f"{acme.url}{PROD}?filter=s1")
    expect(filter_field).to_be_focused()
    page.locator("#stream-table").get_by_role("link", name="Partitions").click()
    expect(names).to_have_text(["s11", "s10", "s1"])
    expect(page.locator("#stream-table th[aria-sort=descending]")).to_contain_text("Partitions")
    expect(page).to_have_url(f"{acme.url}{PROD}?sort=-partitions&filter=s1")
    expect(filter_field).to_have_value("s1")
    page.get_by_text("Columns").first.click()
    page.get_by_label("Retention").check()
    # The topics are pending, so the page refreshes itself: the open menu stays as it is.
    with page.expect_response(lambda answer: "/-streams" in answer.url):
        pass
    expect(page.get_by_label("Retention")).to_be_checked()
    page.get_by_role("button", name="Apply").first.click()
    expect(page.locator("#stream-table thead")).to_contain_text("Retention")
    expect(page).to_have_url(re.compile(r"columns=name(,|%2C)partitions\1retention\1state\1where"))
    assert page.evaluate("window.isSamePage")
    page.go_back()
    expect(page.locator("#stream-table thead")).not_to_contain_text("Retention")


def choose(page: Page, times: str) -> None:
    """Choose how times are shown, in the user menu."""
    page.locator("details.who > summary").click()
    page.locator("#times").get_by_role("button", name=times).click()
    page.keyboard.press("Escape")


def test_times_are_the_viewer_s_own_with_utc_as_their_title(acme: Console, open_page: Callable[..., Page]) -> None:
    acme.rest.ok("POST", "/users", {"name": "ada", "role": "viewer"})
    acme.rest.ok("POST", "/users/ada/tokens", {"name": "ci"})
    page = open_page(acme, "/users/ada", timezone_id="Asia/Tokyo")
    issued = page.locator("#tokens time").first
    expect(issued).to_have_text(re.compile(r"^(now|\d+ s ago), \d+ \w+ \d{4}, \d\d:\d\d:\d\d GMT\+9 \("))
    expect(issued).to_have_attribute("title", re.compile(r"^\d+ \w+ \d{4}, .* GMT\+9 \(\d+ \w+ \d{4}, \S+ UTC\)$"))
    heading = page.locator("#tokens th", has_text="Issued")
    expect(heading.get_by_text("(UTC)")).to_be_hidden()
    choose(page, "Local")
    expect(issued).to_have_text(re.compile(r"^\d+ \w+ \d{4}$"))
    choose(page, "UTC")
    expect(heading.get_by_text("(UTC)")).to_be_visible()
    page.goto(f"{acme.url}/timeline")
    expect(page.locator('#times [aria-pressed="true"]')).to_have_text("UTC")
    row = page.locator("#events tr[data-event]").first
    utc = row.locator("time")
    expect(utc).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    hour = int((utc.text_content() or "").partition(":")[0])
    choose(page, "Local")
    local = re.compile(rf"(^|, ){(hour + 9) % 24:02}:\d\d:\d\d$")
    expect(utc).to_have_text(local)
    # A refresh brings the server's text, which is never seen.
    acme.rest.ok("POST", "/tenants", {"name": "initech"})
    expect(row).to_contain_text("initech")
    expect(utc).to_have_text(local)
