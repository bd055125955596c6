"""Every page of the gallery against WCAG 2.2 AA, by axe in Chromium, in both widths and both themes.

`test_accessibility` checks two looks of each page in each run; this checks all four, nightly.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests import report_facts
from tests.browser.console.test_accessibility import AXE, RULES
from tests.browser.console.test_gallery import console, filled, follow, other_estate
from tests.support.console.consoles import Console
from tests.support.console.gallery import EMPTY, FILLED, LARGE, PICTURES

__all__ = ["console", "filled", "other_estate"]

WIDTHS = {"wide": 1280, "narrow": 390}
THEMES = ("light", "dark")
RUN = """rules => axe.run({runOnly: {type: 'tag', values: rules}}).then((found) => [
  found.violations.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)}`)),
  found.passes.length,
])"""


@pytest.mark.nightly
def test_axe_finds_nothing_in_any_look(filled: Console, open_page: Callable[..., Page]) -> None:
    open_page(filled, "/account")  # another session, to be ended
    assert_accessible(open_page(filled, "/account", expect_errors=True), filled, FILLED)


@pytest.mark.nightly
@pytest.mark.parametrize(("other_estate", "estate"), [(EMPTY, EMPTY), (LARGE, LARGE)], indirect=["other_estate"])
def test_nor_in_those_of_other_estates(other_estate: Console, estate: str, open_page: Callable[..., Page]) -> None:
    assert_accessible(open_page(other_estate, "/account", expect_errors=True), other_estate, estate)


def assert_accessible(page: Page, console: Console, estate: str) -> None:
    """Check all looks of all pictures of an estate, and leave what was found for the report."""
    looked, broken = [], []
    for picture in (each for each in PICTURES if each.estate == estate):
        if picture.name == "login":
            page.context.clear_cookies()
        page.goto(f"{console.url}{picture.address}", wait_until="load")
        follow(page, picture)
        page.evaluate(AXE.read_text())
        shown = picture.way if estate == FILLED else f"{picture.way} ({estate})"
        for width in WIDTHS:
            page.set_viewport_size({"width": WIDTHS[width], "height": 844})
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                violations, passed = page.evaluate(RUN, RULES)
                looked.append([shown, f"{width}, {theme}", len(violations), passed])
                broken += [f"{shown} {width} {theme}: {each}" for each in violations]
    found = {"looked": looked, "version": page.evaluate("axe.version"), "rules": RULES}
    report_facts.leave(f"axe-{estate}", found)
    assert looked and not broken, "\n".join(broken)
