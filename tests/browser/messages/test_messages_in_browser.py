"""The page of messages in Chromium: opening a message, the fields of the form, and axe in every look."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.console.test_accessibility import wrong
from tests.kafka.messages.test_messages_page import console as console
from tests.kafka.messages.test_messages_page import empty_page as empty_page
from tests.kafka.messages.test_messages_page import page as page
from tests.support.console.consoles import Console
from tests.support.kafka.topics import produce


@pytest.mark.nightly  # the stream of events stays in tests/kafka/messages/test_messages_page.py
def test_new_messages_come_on_top(
    estate, console: Console, empty_page: str, open_page: Callable[..., Page]
) -> None:
    shown = open_page(console, f"{empty_page}?cluster=cluster-1")
    expect(shown.get_by_text("No messages here yet.")).to_be_visible()
    assert wrong(shown) == []
    shown.get_by_role("button", name="Follow new messages").click()
    expect(shown.locator("#following")).to_have_text("Waiting for new messages.")
    topic = f"acme-retail-prod-{empty_page.split('/')[5]}"
    produce(estate.bootstrap_servers("cluster-1"), topic, [{"key": b"newest", "value": b"1"}])
    expect(shown.locator("#following")).to_have_text("1 new message")
    expect(shown.locator("#messages details")).to_have_count(1)
    expect(shown.locator("#messages summary").first).to_contain_text("newest")
    shown.get_by_role("button", name="Stop following").click()
    assert wrong(shown) == []


@pytest.mark.nightly  # what the page shows stays in tests/kafka/messages/test_messages_page.py
def test_messages_are_opened_and_searched(console: Console, page: str, open_page: Callable[..., Page]) -> None:
    shown = open_page(console, f"{page}?cluster=cluster-1")
    expect(shown.locator("#messages details")).to_have_count(7)
    expect(shown.get_by_label("Offset", exact=True)).to_be_hidden()
    shown.get_by_label("Start at").select_option("offset")
    expect(shown.get_by_label("Offset", exact=True)).to_be_visible()
    shown.get_by_label("Start at").select_option("earliest")
    shown.get_by_label("JSONPath").fill('$.status == "paid"')
    shown.get_by_role("button", name="Search").click()
    expect(shown.locator("#messages details")).to_have_count(1)
    shown.locator("#messages summary").click()
    expect(shown.locator("#messages pre").last).to_contain_text('"name": "Käthe"')
    assert wrong(shown) == []
    shown.get_by_role("link", name="Trace on all clusters").click()
    expect(shown.get_by_role("heading", name="On every cluster of the tree")).to_be_visible()
