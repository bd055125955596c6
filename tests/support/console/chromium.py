"""Chromium before a console. A page that logs an error or violates its policy fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from backend.queries.access.login import SESSION_COOKIE
from tests.support.api import http
from tests.support.console.consoles import Console

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


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


def log_out(page: Page) -> None:
    """Log out by the user menu."""
    page.locator(".who > summary").click()
    page.get_by_role("button", name="Log out").click()


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
