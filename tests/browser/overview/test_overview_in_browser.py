"""The Overview page in real Chromium: a problem appears on it by itself, and leads to its way out."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOffline
from tests.postgres.overview.test_overview_page import in_order
from tests.support.console.consoles import Console
from tests.support.console.visitors import record
from tests.support.database.postgres import Database


def test_a_problem_appears_without_a_reload(
    acme: Console, database: Database, open_page: Callable[..., Page]
) -> None:
    in_order(database)
    page = open_page(acme, "/")
    expect(page.locator("#verdict-text")).to_contain_text("0 unacknowledged losses, 3 of 3 clusters online.")
    page.evaluate("window.sameDocument = true")
    record(database, RecordOffline(reason="refused"), CLUSTER, "cluster-c2")
    expect(page.locator("#verdict-text")).to_contain_text("c2 is offline: refused.", timeout=30_000)
    expect(page.locator("#cluster-cards > li").first).to_have_attribute("data-cluster", "c2")
    assert page.evaluate("window.sameDocument")
    page.locator("#verdict").get_by_role("link", name="Open c2").click()
    expect(page.get_by_role("heading", name="c2", exact=True)).to_be_visible()
