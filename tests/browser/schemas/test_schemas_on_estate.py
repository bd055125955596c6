"""A schema that is registered on the page, on five real clusters."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console
from tests.support.estate.running import RunningEstate

FIRST = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'
SECOND = '{"type": "record", "name": "Order", "fields": [{"name": "number", "type": "string"}]}'
COMPATIBLE = FIRST.replace("}]}", '}, {"name": "note", "type": "string", "default": ""}]}')


@pytest.mark.nightly  # test_shell and test_schemas_pages
def test_a_version_is_checked_registered_and_seen_on_every_cluster(estate: RunningEstate, open_page) -> None:
    rest = RestClient(estate.url, estate.token)
    rest.ok("POST", "/tenants", {"name": "paged"})
    rest.ok("POST", "/tenants/paged/instances", {"name": "i"})
    rest.ok("POST", "/tenants/paged/instances/i/environments", {"name": "e"})
    rest.ok("POST", "/tenants/paged/instances/i/environments/e/streams", {"name": "orders", "partitions": 1})
    subject = "paged-i-e-orders-value"

    page: Page = open_page(Console(estate.url, estate.token), "/schemas", expect_errors=True)
    page.get_by_role("link", name="Register schema version").click()
    page.get_by_label("Subject").fill(subject)
    page.get_by_label("Schema", exact=True).fill(FIRST)
    expect(page.locator("#verdict")).to_contain_text("The schema can be registered as version 1")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".names [data-cluster='cluster-4']")).to_contain_text("paged-e-orders-value")
    page.get_by_role("button", name="Register version").click()
    expect(page.get_by_role("heading", name=subject, exact=True)).to_be_visible()

    # Something happens between the two versions, and its position has the first alone.
    between = rest.ok("POST", "/tenants", {"name": "later"}) and rest.ok("GET", "/events/head")["position"]
    page.get_by_role("link", name="Register version").click()
    expect(page.get_by_label("Subject")).to_have_value(subject)
    page.get_by_label("Schema", exact=True).fill(SECOND)
    expect(page.locator("#verdict")).to_contain_text("not BACKWARD-compatible")
    expect(page.locator(".problems li").first).to_be_visible()
    page.get_by_label("Schema", exact=True).fill(COMPATIBLE)
    expect(page.locator("#verdict")).to_contain_text("version 2")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".diff .added").first).to_be_visible()
    page.get_by_role("button", name="Register version").click()
    expect(page.locator("#versions li")).to_have_count(2)

    now = page.url
    page.goto(f"{now}?at={between}")
    expect(page.locator("#versions li")).to_have_count(1)
    expect(page.locator("#past")).to_contain_text(
        "schemas that had been registered then, of those that clusters hold now"
    )
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator("#versions li")).to_have_count(2)

    there = page.locator("#elsewhere [data-cluster='cluster-4']")
    for _ in range(100):
        if "2 of 2" in there.inner_text():
            break
        page.wait_for_timeout(300)
        page.reload()
    expect(there).to_contain_text("paged-e-orders-value")
    there.get_by_role("link").click()
    expect(page.locator("#diff")).to_contain_text("note")
