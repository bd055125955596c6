"""Screenshots of the pages of switches, in both themes, wide and narrow: nothing overflows the page.

With TREELINE_ALL_PICTURES=folder they are saved. Those of the documentation are the gallery's (test_gallery.py).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize

from backend.domain.switch.cluster_switch import Phase
from tests.support.api.observations import observe
from tests.support.console.consoles import Console
from tests.support.console.switching import (
    COMPLETED,
    HOLDING,
    all_online,
    client,
    clusters_say,
    commands,
    lacking,
    start,
    to,
    told,
)
from tests.support.database.postgres import Database

PLAN = "/switches/plan?from=c1&to=c2"
WIDE, NARROW = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
ARROWS = (("c1", 2, "c2"), ("c2", 1, "c3"), ("c2", 2, "c1"), ("c3", 1, "c2"), ("c3", 2, "c1"))


def taken(page: Page, name: str, folder: Path | None) -> None:
    """Check that an open page does not overflow; save screenshots if a folder is given."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width, size in (("wide", WIDE), ("narrow", NARROW)):
            page.set_viewport_size(size)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], f"{name} {width}"
            if folder:
                page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)
    page.set_viewport_size(WIDE)


def starts_without_scrolling(page: Page) -> None:
    """Check that the button that starts a planned switch is visible without scrolling in usual window sizes."""
    for size in (ViewportSize(width=1440, height=900), ViewportSize(width=1280, height=800)):
        page.set_viewport_size(size)
        box = page.locator("#start button").bounding_box()
        assert box is not None and box["y"] + box["height"] <= size["height"], (size, box)


@pytest.fixture
def folder() -> Path | None:
    """Return the folder for screenshots; None, since each takes time, unless it is requested."""
    if "TREELINE_ALL_PICTURES" not in os.environ:
        return None
    path = Path(os.environ["TREELINE_ALL_PICTURES"])
    path.mkdir(exist_ok=True, parents=True)
    return path


@pytest.mark.nightly  # a look; one of the pictures stays
def test_plans(
    acme: Console, database: Database, open_page, folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_online(database)
    for cluster, level, target in ARROWS:
        observe(database.engine, cluster, level, target, records_per_second=480.0)
    for n in range(3):
        client(database, f"checkout-{n}")
    client(database, "billing-1", role="consumer")
    with clusters_say(monkeypatch):
        page = open_page(acme, PLAN)
        starts_without_scrolling(page)
        taken(page, "switch-plan", folder)
        page.goto(f"{acme.url}{PLAN}&mode=emergency&who=acme")
        starts_without_scrolling(page)
        taken(page, "switch-emergency", folder)
    page = open_page(acme, "/switches/plan?from=c3&to=c1")
    taken(page, "switch-blocked", folder)


@pytest.mark.nightly  # a look; one of the pictures stays
def test_a_switch_on_its_way(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    all_online(database)
    for n in range(3):
        client(database, f"checkout-{n}", phase="held" if n else "active")
    client(database, "batch-import-with-a-long-name-0bd1f2", role="")
    client(database, "billing-1", role="consumer")
    commands(database, start("s0", target="c3"), to(Phase.HOLDING), switch="s0")
    page = open_page(acme, "/switches/s0")
    page.locator("#live[data-live='on']").wait_for()
    taken(page, "switch-holding", folder)
    page.goto(f"{acme.url}/switches/s0/-force")
    taken(page, "switch-force", folder)
    page.goto(f"{acme.url}/switches/s0/-abort")
    taken(page, "switch-abort", folder)


def test_a_switch_that_is_over(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    commands(database, *COMPLETED)
    page = open_page(acme, "/switches/s1")
    taken(page, "switch-report", folder)
    page.goto(f"{acme.url}/switches")
    taken(page, "switches", folder)


@pytest.mark.nightly  # a look; one of the pictures stays
def test_a_switch_that_drains(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    commands(database, *HOLDING, to(Phase.DRAINING, clients=12))
    long = "a-tenant-with-a-long-name/an-instance-with-a-long-name/production/a-stream-with-a-name-that-is-long"
    told(database, missing_records=1_204, left=31, lacking=[lacking(n, 1_204 - n, stream=long) for n in range(20)])
    page = open_page(acme, "/switches/s1")
    taken(page, "switch-draining", folder)
