"""A stream's page in real Chromium: figures load by themselves, and tabs are links."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.support.console.consoles import Console
from tests.support.console.visitors import PROD


def test_figures_follow_the_page_and_tabs_lead_on(acme: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(acme, f"{PROD}/orders")
    expect(page.locator("[data-problem='c1']")).to_contain_text("c1 is offline")
    expect(page.get_by_role("link", name="Load figures")).to_have_count(0)
    bar = page.get_by_role("navigation", name="Stream")
    bar.get_by_role("link", name="Partitions").click()
    page.wait_for_url("**/-partitions")
    expect(page.locator("[data-problem='c3']")).to_contain_text("c3 is offline")
    expect(bar.locator("[aria-current]")).to_have_text("Partitions")


def test_figures_that_do_not_come_are_said_not_to_come(acme: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(acme, f"{PROD}/orders/-partitions", expect_errors=True)
    page.route("**/-figures", lambda route: route.fulfill(status=500))
    page.get_by_role("navigation", name="Stream").get_by_role("link", name="Overview").click()
    why = "could not be loaded: the control plane answered with status 500"
    expect(page.get_by_role("alert")).to_contain_text(why)
    expect(page.get_by_text("Loading figures")).to_be_hidden()
    expect(page.locator("#live")).to_contain_text("not live since")
    page.get_by_role("link", name="Try again").click()
    expect(page.locator("[data-problem='c1']")).to_contain_text("c1 is offline")
