"""To the provider and back by mouse: the policy of pages allows the way, also the one that logging out takes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.support.console.chromium import log_out
from tests.support.console.consoles import Console
from tests.support.console.openid_provider import Provider


def test_logging_in_and_out_by_a_provider(sso: Console, provider: Provider, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{sso.url}/account")
    page.get_by_role("link", name="Log in with ACME <SSO>").click()
    expect(page).to_have_url(f"{sso.url}/account")
    expect(page.get_by_role("heading", name="ada")).to_be_visible()
    expect(page.locator("#sessions")).to_contain_text("provider")
    expect(page.get_by_text("You have no password")).to_be_visible()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Issue token").click()
    page.get_by_role("button", name="Issue token").click()
    expect(page.locator("#secret")).to_be_visible()
    log_out(page)
    page.wait_for_url(f"{provider.url}/logout?*")
    page.goto(f"{sso.url}/account")
    expect(page.get_by_role("heading", name="Log in", exact=True)).to_be_visible()
    context.close()


@pytest.mark.nightly  # test_oidc_users
def test_an_admin_links_and_unlinks_a_user_on_its_page(sso: Console, open_page) -> None:
    sso.rest.ok("POST", "/users", {"name": "bob"})
    page = open_page(sso, "/users/bob")
    page.get_by_label("Subject").fill("s-1")
    page.get_by_role("button", name="Link", exact=True).click()
    expect(page.locator("main")).to_contain_text("logs in as bob from then on")
    page.get_by_role("button", name="Login of bob through the provider").click()
    expect(page.locator("#identity")).to_contain_text("Logs in as s-1")
    page.get_by_role("button", name="Unlink").click()
    page.get_by_role("button", name="Login of bob through the provider").click()
    expect(page.locator("#identity")).to_have_count(0)
    page.goto(f"{sso.url}/audit")
    expect(page.locator("[data-kind='IdentityUnlinked']")).to_contain_text("session by link")
