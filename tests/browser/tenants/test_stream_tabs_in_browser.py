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
