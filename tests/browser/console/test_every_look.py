"""Every page of the gallery against WCAG 2.2 AA, by axe in Chromium, in both widths and both themes.

`test_accessibility` checks two looks of each page in each run; this checks all four, nightly.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests import report_facts
from tests.browser.console.test_accessibility import AXE, RULES
from tests.browser.console.test_gallery import console, filled, follow
from tests.support.console.consoles import Console
from tests.support.console.gallery import FILLED_PICTURES

__all__ = ["console", "filled"]

WIDTHS = {"wide": 1280, "narrow": 390}
THEMES = ("light", "dark")
RUN = """rules => axe.run({runOnly: {type: 'tag', values: rules}}).then((found) => [
  found.violations.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)}`)),
  found.passes.length,
])"""


@pytest.mark.nightly
def test_axe_finds_nothing_in_any_look(filled: Console, open_page: Callable[..., Page]) -> None:
    open_page(filled, "/account")  # another session, to be ended
    page = open_page(filled, "/account", expect_errors=True)
    looked, broken = [], []
    for picture in FILLED_PICTURES:
        if picture.name == "login":
            page.context.clear_cookies()
        page.goto(f"{filled.url}{picture.address}", wait_until="load")
        follow(page, picture)
        page.evaluate(AXE.read_text())
        for width in WIDTHS:
            page.set_viewport_size({"width": WIDTHS[width], "height": 844})
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                violations, passed = page.evaluate(RUN, RULES)
                looked.append([picture.way, f"{width}, {theme}", len(violations), passed])
                broken += [f"{picture.way} {width} {theme}: {each}" for each in violations]
    report_facts.leave("axe", {"looked": looked, "version": page.evaluate("axe.version"), "rules": RULES})
    assert not broken, "\n".join(broken)
