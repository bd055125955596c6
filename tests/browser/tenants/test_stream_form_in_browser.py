"""Declaring a stream in real Chromium: by keyboard with JavaScript, by mouse without."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from backend.domain.tenants.stream_records import RecordApplied
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, PROD, record
from tests.support.database.postgres import Database

PAYMENTS = {"instance": "retail", "environment": "prod", "stream": "payments"}


def apply_everywhere(database: Database) -> None:
    for cluster in ("c1", "c2", "c3"):
        record(database, RecordApplied(**PAYMENTS, cluster=cluster, topic_id=cluster, replication_factor=1))


@pytest.mark.nightly  # the form without a browser in test_tenant_pages; by keyboard: test_cluster_forms
def test_by_keyboard_with_names_checked_while_typing_and_progress_without_a_reload(
    acme: Console, database: Database, open_page
) -> None:
    # A name that is taken is answered with 409 once the form is sent.
    page: Page = open_page(acme, PROD, expect_errors=True)
    page.get_by_role("link", name="Declare stream").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text("Enter a name")
    page.keyboard.type("orders")
    expect(verdict).to_contain_text("stream acme/retail/prod/orders already exists")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("stream acme/retail/prod/orders already exists")
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_attribute("aria-invalid", "true")
    name.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("payments")
    expect(verdict).to_contain_text("acme/retail/prod/payments can be declared")
    expect(page.locator(".names [data-cluster='c3']")).to_contain_text("acme-prod-payments")
    expect(name).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("6")
    expect(verdict).to_contain_text("a topic of 6 partitions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Declare stream: preview")).to_be_visible()
    expect(page.locator("#same-yaml")).to_contain_text("payments:")
    confirm = page.get_by_role("button", name="Declare stream")
    for _ in range(30):
        if confirm.evaluate("each => each === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{acme.url}{PROD}/payments")
    assert acme.rest.ok("GET", f"{API_PROD}/streams/payments")["partitions"] == 6
    expect(page.locator("#progress")).to_contain_text("Applied on 0 of 3 clusters; 3 pending")
    page.evaluate("window.sameDocument = true")
    apply_everywhere(database)
    expect(page.locator("#progress")).to_contain_text("Applied on 3 of 3 clusters")
    expect(page.locator("[data-state='applied'][data-cluster]")).to_have_count(3)
    assert page.evaluate("window.sameDocument")
    expect(page.locator("#applied[hx-trigger]")).to_have_count(0)


@pytest.mark.nightly
def test_by_mouse_without_javascript(acme: Console, database: Database, open_page) -> None:
    page: Page = open_page(acme, "/tenants", java_script_enabled=False)
    for link in ("acme", "prod", "Declare stream"):
        page.get_by_role("main").get_by_role("link", name=link, exact=True).click()
    page.get_by_label("Name", exact=True).fill("payments")
    page.get_by_label("Partitions").fill("6")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#verdict")).to_contain_text("acme/retail/prod/payments can be declared")
    expect(page.locator("[data-field='Partitions']")).to_contain_text("6")
    page.get_by_role("button", name="Back to the form").click()
    expect(page.get_by_label("Partitions")).to_have_value("6")
    page.get_by_label("Partitions").fill("5")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Declare stream").click()
    expect(page).to_have_url(f"{acme.url}{PROD}/payments")
    expect(page.locator("#progress")).to_contain_text("3 pending")
    apply_everywhere(database)
    # It loads itself again.
    expect(page.locator("#progress")).to_have_text(re.compile("Applied on 3 of 3"), timeout=30_000)
    assert acme.rest.ok("GET", f"{API_PROD}/streams/payments")["partitions"] == 5
