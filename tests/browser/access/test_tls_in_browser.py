"""Login and logout in real Chromium, by a reverse proxy with TLS: cookies are restricted to this host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.access.tls_proxy import RESOLVED_HERE, TlsProxy, tls_proxy
from tests.support.api import http
from tests.support.console.chromium import CHROMIUM, CHROMIUM_FLAGS, log_out
from tests.support.console.consoles import Console
from tests.support.console.oidc import console_with
from tests.support.console.openid_provider import Provider
from tests.support.database.postgres import Database

PASSWORD = "plum lantern orbit 73"


@dataclass(frozen=True)
class Site:
    """A control plane behind a proxy."""

    proxy: TlsProxy
    console: Console
    context: BrowserContext

    def cookies(self) -> dict[str, Any]:
        """Return the browser's cookies for the console, by name."""
        return {cookie["name"]: cookie for cookie in self.context.cookies(self.proxy.url)}

    def login_link(self) -> str:
        return self.proxy.url + self.console.login_link().removeprefix(self.console.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser that resolves the proxy's names to this machine."""
    with sync_playwright() as playwright:
        flags = [*CHROMIUM_FLAGS, RESOLVED_HERE]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def site(database: Database, provider: Provider, tmp_path: Path, browser: Browser) -> Iterator[Site]:
    with tls_proxy(tmp_path) as proxy:
        settings = {"url": proxy.url, "trusted_proxies": ["127.0.0.1"]}
        with console_with(database, provider, tmp_path, **settings) as console:
            proxy.upstream = console.url
            context = browser.new_context(ignore_https_errors=True)
            yield Site(proxy, console, context)
            context.close()


def _is_of_this_host(cookie: Any) -> bool:
    return bool(
        cookie["secure"] and cookie["httpOnly"] and cookie["path"] == "/" and not cookie["domain"].startswith(".")
    )


def _log_out(page: Page) -> None:
    log_out(page)


def test_logging_in_by_password_with_a_form_and_out(site: Site) -> None:
    site.console.rest.ok("POST", "/users", {"name": "ada"})
    site.console.rest.ok("PUT", "/users/ada/password", {"password": PASSWORD})
    page = site.context.new_page()
    page.goto(f"{site.proxy.url}/account")
    assert set(site.cookies()) == {"__Host-treeline_login"}
    page.get_by_label("User").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page).to_have_url(f"{site.proxy.url}/account")
    expect(page.locator("#sessions")).to_contain_text("this one")
    assert set(site.cookies()) == {"__Host-treeline_login", "__Host-treeline_session"}
    assert all(_is_of_this_host(cookie) for cookie in site.cookies().values())
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Issue token").click()
    page.get_by_role("button", name="Issue token").click()
    expect(page.locator("#secret")).to_be_visible()
    _log_out(page)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert "__Host-treeline_session" not in site.cookies()


@pytest.mark.nightly  # by a password with TLS stays; the provider's way: test_oidc_login
def test_logging_in_by_a_provider_and_out(site: Site, provider: Provider) -> None:
    page = site.context.new_page()
    page.goto(f"{site.proxy.url}/account")
    page.get_by_role("link", name="Log in with ACME <SSO>").click()
    expect(page).to_have_url(f"{site.proxy.url}/account")
    expect(page.locator("#sessions")).to_contain_text("provider")
    assert any(b"__Host-treeline_oidc=" in sent for sent in site.proxy.cookies)
    assert set(site.cookies()) == {"__Host-treeline_login", "__Host-treeline_session"}
    _log_out(page)
    page.wait_for_url(f"{provider.url}/logout?*")
    assert "__Host-treeline_session" not in site.cookies()


def test_a_session_that_a_neighbour_gives_logs_nobody_in(site: Site) -> None:
    """By a cookie for the whole domain, a neighbour could make visitors work in a session of its own."""
    headers = {"X-Forwarded-Proto": "https"}
    opened = http.get(site.console.login_link(), headers=headers).headers["set-cookie"]
    site.proxy.given = opened.partition("=")[2].partition(";")[0].encode()
    page = site.context.new_page()
    page.goto(site.proxy.neighbour)
    page.goto(f"{site.proxy.url}/account")
    assert site.proxy.cookies[0].count(site.proxy.given) == 2, (
        "the browser took them, but for one of this host's name"
    )
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(site.login_link())
    page.goto(f"{site.proxy.url}/account")
    expect(page.locator("#sessions tr[data-session]")).to_have_count(2)
    own = page.locator("[data-here]").get_attribute("data-session")
    page.goto(site.proxy.neighbour)
    page.goto(f"{site.proxy.url}/account")
    assert page.locator("[data-here]").get_attribute("data-session") == own
