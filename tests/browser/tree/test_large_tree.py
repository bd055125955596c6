"""The Tree page of fifty clusters in Chromium: labels, drawer, collapsed subtrees, scale, and telephones."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.support.console.consoles import Console
from tests.support.console.large_trees import grow, report
from tests.support.database.postgres import Database

LATE = {"lag_records": 70, "wait_seconds": 90.0}
PATIENCE_MS = 20_000
"""Time that a slow machine has for the drawer while the first drawings come."""


def seen(page: Page) -> list[str]:
    """Return the distributors whose labels can be seen."""
    return list(
        page.locator("#tree-svg .arrow").evaluate_all(
            """all => all.filter(each => getComputedStyle(each.querySelector(".label")).visibility === "visible")
                 .map(each => each.dataset.distributor)"""
        )
    )


def test_fifty_clusters_are_read_collapsed_opened_and_scaled(
    console: Console, database: Database, open_page
) -> None:
    names = grow(database, 50)
    report(database, names, {("c03", 5): LATE})
    page = open_page(console, "/tree?collapsed=none")
    drawing = page.locator("#tree-svg")
    expect(page.locator("#tree-svg .leaf")).to_have_count(50)
    page.evaluate("document.fonts.ready.then(() => true)")
    look_at_labels(page)
    look_at_the_drawer(page, console)
    # Zoomed in, it stays so while new drawings come.
    whole = drawing.get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    zoomed = drawing.get_attribute("viewBox")
    assert zoomed != whole
    report(database, names, {("c03", 5): LATE, ("c20", 1): LATE})
    troubled = page.locator("#tree-svg [data-distributor='c20:1']")
    expect(troubled).to_have_class(re.compile("problem"), timeout=PATIENCE_MS)
    assert drawing.get_attribute("viewBox") == zoomed
    page.keyboard.press("0")
    assert drawing.get_attribute("viewBox") == whole
    assert page.evaluate("document.getElementById('tree-svg').getBoundingClientRect().height < innerHeight")
    look_at_collapsing(page, database, names)
    look_at_a_telephone(page)
    look_at_the_table(page, console)


def look_at_labels(page: Page) -> None:
    """Only the label of a problem is seen; what is pointed at or focused shows others."""
    assert seen(page) == ["c03:5"]
    page.locator("#tree-svg [data-distributor='c10:2'] .room").hover(force=True)
    assert set(seen(page)) == {"c03:5", "c10:2"}
    page.locator("#leaf-c21").focus()
    assert {"c03:5", "c21:1", "c21:6"} <= set(seen(page))
    too_wide = page.locator("#tree-svg .arrow").evaluate_all(
        """all => all.filter(each => {
             const [label, room] = [each.querySelector(".label").getBBox(), each.querySelector(".room").getBBox()];
             return label.x < room.x || label.x + label.width > room.x + room.width;
           }).map(each => each.dataset.distributor)"""
    )
    assert too_wide == []


def look_at_the_drawer(page: Page, console: Console) -> None:
    """A click opens it and is kept in the address; it stays while the page is live, and Escape closes it."""
    page.locator("#tree-svg [data-distributor='c03:5'] .label").click()
    expect(page.locator("#drawer-title")).to_have_text("c03:5", timeout=PATIENCE_MS)
    expect(page.locator("#drawer-title")).to_be_focused()
    assert page.url == f"{console.url}/tree?collapsed=none&open=c03:5"
    expect(page.locator("#tree-svg .opened")).to_have_attribute("data-distributor", "c03:5")
    page.locator("#drawer-facts").get_by_role("link", name="c03").press("Enter")
    expect(page.locator("#drawer-title")).to_have_text("c03", timeout=PATIENCE_MS)
    page.go_back()
    expect(page.locator("#drawer-title")).to_have_text("c03:5", timeout=PATIENCE_MS)
    page.locator(".who > summary").press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator(".who")).not_to_have_attribute("open", "")
    expect(page.locator("#drawer")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_have_count(0)
    assert page.evaluate("document.activeElement.dataset.distributor") == "c03:5"
    assert page.url == f"{console.url}/tree?collapsed=none"


def look_at_the_table(page: Page, console: Console) -> None:
    """Another order and a filter keep the place on the page and what is open, and the address stays short."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{console.url}/tree?collapsed=none&open=c03:5")
    page.locator("#distributor-table-by-level").press("Enter")
    page.wait_for_url(lambda address: "sort=level" in address and "open=c03" in address)
    expect(page.locator("#distributor-table-by-level")).to_be_in_viewport()
    field = page.locator("#distributor-table-filter")
    field.fill("c03")
    field.press("Enter")
    page.wait_for_url(lambda address: "filter=c03" in address)
    expect(field).to_be_in_viewport()
    assert "columns=" not in page.url and "open=c03" in page.url
    page.locator("#distributor-table-filter").fill("")
    field.press("Enter")
    page.wait_for_url(lambda address: "filter" not in address)


def look_at_collapsing(page: Page, database: Database, names: list[str]) -> None:
    """A node collapses and expands with Enter; the address keeps it, and so does the live page."""
    page.locator("#node-r0000").press("Enter")
    box = page.locator("a.folded")
    expect(box).to_have_count(1)
    assert page.url.endswith("/tree?collapsed=r0000")
    expect(box).to_contain_text("4 clusters, 1 problem")
    expect(box).to_be_focused()
    report(database, names, {("c03", 5): LATE, ("c40", 1): LATE})
    troubled = page.locator("#tree-svg [data-distributor='c40:1']")
    expect(troubled).to_have_class(re.compile("problem"), timeout=PATIENCE_MS)
    expect(box).to_have_count(1)
    box.press("Enter")
    expect(page.locator("#tree-svg .leaf")).to_have_count(50)
    assert page.url.endswith("/tree?collapsed=none")


def look_at_a_telephone(page: Page) -> None:
    """The tree is a list there, without anything beside the window."""
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#tree-svg")).to_be_hidden()
    page.locator("#row-of-c03").click()
    expect(page.locator("#drawer-title")).to_have_text("c03", timeout=PATIENCE_MS)
    expect(page.locator("#drawer .edges").first.locator("li")).to_have_count(6)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#drawer .edges").first.get_by_role("link", name="L5").click()
    expect(page.locator("#drawer-title")).to_have_text("c03:5", timeout=PATIENCE_MS)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_have_count(0)
    expect(page.locator("#row-of-c03")).to_be_focused()
