"""Every page against WCAG 2.2 AA, by axe in Chromium: wide in the dark, and narrow in the light."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page

from backend.settings import PROJECT_ROOT
from tests.support.console.consoles import Console
from tests.support.console.filling import fill
from tests.support.database.postgres import Database

AXE = PROJECT_ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LOOKS: dict[str, tuple[Literal["dark", "light"], int]] = {
    "dark, wide": ("dark", 1280),
    "light, narrow": ("light", 390),
}
PROD = "/tenants/acme/retail/prod"
PAGES = (
    *(
        "/overview",
        "/tree",
        "/tree?at=9",
        "/clusters",
        "/clusters/c1",
        "/clusters/c1?at=9",
        "/clusters/c1/replication",
    ),
    *("/tree?collapsed=r1", "/tree?open=c1", "/tree?open=c1:2&at=9"),
    *("/clusters/c1/replication/-elect", "/clusters/c1/replication/what-if", "/tenants", "/tenants/-new"),
    *(
        "/tenants/acme",
        "/tenants/acme/-grants",
        "/tenants/acme/-members/-new",
        PROD,
        f"{PROD}/-new",
        f"{PROD}/-change",
    ),
    *(f"{PROD}/orders", f"{PROD}/orders/-change", f"{PROD}/orders/-delete", f"{PROD}/-applications/-new"),
    f"{PROD}/orders/-messages/-produce",
    *(f"{PROD}/orders?figures=1", f"{PROD}/orders/-groups", f"{PROD}/orders/-schema", f"{PROD}/orders/-settings"),
    *(f"{PROD}/orders/-partitions?figures=1", f"{PROD}/orders/-history", "/tenants/-stream"),
    *(f"{PROD}/-applications/billing", f"{PROD}/-applications/billing/-change", "/offsets", "/switches"),
    *("/offsets?at=9", "/schemas?at=9", "/trace?at=9", "/clusters/c1/replication?at=9"),
    *("/switches/s1", "/switches/s1/-abort", "/switches/plan", "/placements", "/placements/p1", "/placements/p2"),
    "/placements/-new",
    *("/charts", "/charts?metric=edge.lag_records&subject=c1:2", "/charts?metric=switch.hold_ms&range=7d"),
    *("/zones", "/drills", "/drills/replication/log-divergence", "/drills/schedule", "/timeline", "/timeline/3"),
    *(
        "/timeline/-differences?from=3",
        "/trace",
        "/users",
        "/users/ada",
        "/webhooks",
        "/webhooks/ops",
        "/webhooks/-new",
        "/webhooks/ops/-secret",
        "/audit",
        "/account",
        "/find?q=a",
        "/tenants/nobody",
    ),
    *("/clusters/-new", "/clusters/c1/-change", "/clusters/c1/-remove", "/tree/-target/c1/2", "/tree/-primary"),
    *("/tree/-settings/c1/2", "/tree/edit", "/tree/edit?steps=level:r1:2&node=r1", "/losses", "/offsets/-reset"),
    *("/groups", "/groups/-of?cluster=c1&group=acme-retail-prod-billing"),
    *("/losses/-acknowledge?cluster=c1&level=2", "/timeline/-rebuild", "/zones/-forget?node=zr-az1"),
)


@pytest.fixture
def filled(acme: Console, database: Database) -> Console:
    """Return a console with content on every page."""
    fill(acme, database)
    return acme


# Axe does not check this (WCAG 1.4.11): input fields have a border, and their text does not touch it.
WITHOUT_EDGE = """() => [...document.querySelectorAll("main :is(input, select, textarea)")]
  .filter((each) => each.checkVisibility() && !["checkbox", "radio", "range"].includes(each.type))
  .filter((each) => {
    const style = getComputedStyle(each);
    return parseFloat(style.borderLeftWidth) < 1 || parseFloat(style.paddingLeft) < 4;
  })
  .map((each) => `no edge: ${each.outerHTML.slice(0, 160)}`)"""


def wrong(page: Page) -> list[str]:
    """Return what axe finds in either look at the open page: the rule, and the element."""
    page.evaluate(AXE.read_text())
    found = list(page.evaluate(WITHOUT_EDGE))
    for look, (theme, width) in LOOKS.items():
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 844})
        violations = page.evaluate(
            "rules => axe.run({runOnly: {type: 'tag', values: rules}, resultTypes: ['violations']})"
            ".then((found) => found.violations)",
            RULES,
        )
        found += [
            f"{look}: {each['id']}: {node['html'][:160]}: {node['failureSummary'][:300]}"
            for each in violations
            for node in each["nodes"]
        ]
    return found


def secrets_by_turns(page: Page, console: Console) -> Iterator[tuple[str, list[str]]]:
    """Yield violations where a secret is typed, refused, and shown; no address leads there."""
    page.goto(f"{console.url}/users/ada")
    page.get_by_role("button", name="Set password").click()
    page.get_by_label("New password").fill("short")
    yield "a password is typed", wrong(page)
    page.get_by_role("button", name="Set password").click()
    page.get_by_role("alert").wait_for()
    yield "a password is refused", wrong(page)
    page.goto(f"{console.url}/users/ada")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Issue token").click()
    yield "a token is previewed", wrong(page)
    page.get_by_role("button", name="Issue token").click()
    page.locator("#secret").wait_for()
    yield "a token is shown", wrong(page)


@pytest.mark.nightly
def test_axe_finds_nothing(filled: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(filled, "/account", expect_errors=True)
    found = {}
    for address in PAGES:
        answer = page.goto(f"{filled.url}{address}", wait_until="domcontentloaded")
        assert answer is not None and answer.status in (200, 404, 503), f"{address}: {answer and answer.status}"
        found[address] = wrong(page)
    page.keyboard.press("Control+k")
    page.locator("#finder-hits a.chosen").wait_for()
    found["the window that finds"] = wrong(page)
    found |= dict(secrets_by_turns(page, filled))
    page.context.clear_cookies()
    page.goto(f"{filled.url}/login")
    found["/login"] = wrong(page)
    assert len(found) > 60
    problems = [f"{address}: {each}" for address, all_of in found.items() for each in all_of]
    assert problems == []
