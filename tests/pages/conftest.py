"""Real Chromium in front of a real control plane. A page that logs an error or violates its policy fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from backend.queries.access import secrets
from backend.queries.access.login import SESSION_COOKIE
from tests import http
from tests.database_fixture import Content, Database
from tests.openid_provider import Provider, serving
from tests.pages.consoles import Console, serve_here
from tests.pages.oidc import console_with
from tests.pages.visitors import Visitor, clusters_and_tenants

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hash passwords at a small cost; tests/integration/test_rest_users.py has the product's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "COST", 1 << 8)
        yield


@pytest.fixture
def database_content(request: pytest.FixtureRequest) -> Content | None:
    """Return the initial content that `acme` promises."""
    return clusters_and_tenants if "acme" in request.fixturenames else None


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    """Yield an empty control plane, without Kafka and workers.

    Clients' reports never expire, however slow the machine is.
    """
    with serve_here(database.url, discovery_ttl_ms=600_000, discovery_hold_ms=600_000) as running:
        yield running


@pytest.fixture
def acme(console: Console) -> Console:
    """Return a console with clusters in a tree and two tenants: see `visitors.clusters_and_tenants`."""
    return console


@pytest.fixture
def owner(acme: Console) -> Visitor:
    return Visitor(acme, "ada", acme="owner")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider()) as running:
        yield running


@pytest.fixture
def sso(database: Database, provider: Provider, tmp_path: Path) -> Iterator[Console]:
    """Yield a control plane that admits all users of the provider."""
    with console_with(database, provider, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield one browser for a module, not for longer.

    Playwright keeps an event loop running, and while one runs no other test could use asyncio.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


def session_of(console: Console) -> Any:
    """Return the cookie of a new session, without loading the page that a login link leads to."""
    answer = http.get(console.login_link())
    assert answer.status_code == 303
    return {"name": SESSION_COOKIE, "value": answer.cookies[SESSION_COOKIE], "url": console.url, "httpOnly": True}


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Yield a function that opens logged-in pages; `wrong` of a page's context collects its violations."""
    contexts = []
    wrong: list[str] = []

    def open_page(console: Console, path: str = "/tree", expect_errors: bool = False, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        if not expect_errors:
            page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
            page.on(
                "console",
                lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None,
            )
            page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        context.add_cookies([session_of(console)])
        page.goto(f"{console.url}{path}", wait_until="domcontentloaded")
        return page

    yield open_page
    for context in contexts:
        context.close()
    # A violation of the content security policy is an error in the console.
    assert wrong == []
