"""A placement in real Chromium: requested by keyboard and mouse, and watched until it is planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from backend.queries.clusters.broker_presence import store_brokers
from tests.browser.switch.test_switch_pictures import folder, taken
from tests.support.console.consoles import Console
from tests.support.console.placing import GROWN, ask, cluster, documents, failed, planned
from tests.support.console.replicating import look, looked_at, online
from tests.support.database.postgres import Database

__all__ = ["folder"]


@pytest.mark.nightly  # the form without a browser in test_placement_form; the run in test_runs
def test_asked_for_watched_and_looked_at(
    acme: Console, database: Database, open_page: Callable[..., Page]
) -> None:
    page = open_page(acme, "/placements")
    page.get_by_role("link", name="Create plan").click()
    page.get_by_label("Cluster", exact=True).select_option("c1")
    expect(page.locator("#verdict").first).to_contain_text("A worker reads c1")
    page.get_by_label("Target brokers").fill("1, x")
    expect(page.locator("#verdict").first).to_contain_text("'x' is not valid")
    page.get_by_label("Target brokers").fill("1-9")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#same-command")).to_contain_text("--target-brokers 1,2,3,4,5,6,7,8,9")
    page.get_by_role("button", name="Create plan").click()
    expect(page.locator("#state")).to_have_text("Computing plan")
    expect(page.locator("#live")).to_have_text("live")
    placement = page.url.rpartition("/")[2]
    planned(database, placement, documents(GROWN))
    expect(page.locator("#state")).to_have_text("Planned")
    expect(page).to_have_title("Planned: Placement 1 · c1 · Treeline")
    expect(page.get_by_role("img", name="Replicas of each broker before and after")).to_be_visible()
    expect(page.locator("#live")).to_have_count(0)
    # The grid is reached and scrolled by keyboard.
    page.locator(".scroll:has(#map)").focus()
    with page.expect_download() as begun:
        page.get_by_role("link", name="Rollback plan (JSON)").click()
    assert begun.value.suggested_filename == f"{placement}-back.json"


@pytest.mark.nightly
def test_without_javascript_it_reloads_itself(
    acme: Console, database: Database, open_page: Callable[..., Page]
) -> None:
    ask(database, "p1")
    page = open_page(acme, "/placements/p1", java_script_enabled=False)
    expect(page.locator("#state")).to_have_text("Computing plan")
    failed(database, "p1", "nobody answers")
    expect(page.locator("#state")).to_have_text("Planning failed", timeout=30_000)


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, database: Database, open_page: Callable[..., Page], folder: Path | None) -> None:
    ask(database, "p1")
    planned(database, "p1", documents(GROWN))
    racks = [f"rack-{each % 6}" for each in range(240)]
    partitions = {f"tenant-{each:02}-orders": 40 + 9 * each for each in range(24)}
    ask(database, "p2", "c2", no_leaders=(7,))
    planned(database, "p2", documents(cluster(racks, partitions, empty=24)))
    ask(database, "p3", "c3", replication_factor=4)
    few = cluster(["az1", "az2", "az3"], {"orders": 4})
    planned(database, "p3", documents({**few, "replication_factor": 4}))
    ask(database, "p4", "c3")
    failed(database, "p4", "brokers are unavailable (4, 5): start them, or set target_brokers without them")
    ask(database, "p5")
    online(database)
    with database.engine.begin() as connection:
        for brokers in ({6: (True, False)}, {6: (False, False), 7: (True, True)}):
            store_brokers(connection, "K1", brokers)
    look(database, looked_at(away=(6,), elsewhere=(1,)))
    online(database, "c2", "K2")
    look(database, looked_at(), "K2")
    page = open_page(acme, "/placements/p1")
    for path, name in (
        ("/placements/p1", "placement"),
        ("/placements/p2", "placement-large"),
        ("/placements/p3", "placement-broken"),
        ("/placements/p4", "placement-failed"),
        ("/placements", "placements"),
        ("/placements/-new?like=p2", "placement-form"),
        ("/clusters/c1/replication", "replication"),
        ("/clusters/c1/replication/-elect", "replication-elect"),
        ("/clusters/c1/replication/-policy", "placement-policy"),
        ("/clusters/c2/replication", "replication-well"),
        ("/clusters/c3/replication", "replication-unseen"),
    ):
        page.goto(f"{acme.url}{path}")
        taken(page, name, folder)
