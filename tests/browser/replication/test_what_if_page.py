"""The page of a what-if in real Chromium: the gravest first in its tone, all in words, and nothing runs out of it.

With TREELINE_ALL_PICTURES=folder pictures are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from backend.cluster_requests.broker_loss import BrokerLoss, played
from backend.domain.replication.replication_health import (
    ObservedBroker,
    ObservedCluster,
    ObservedPartition,
    TopicSettings,
)
from backend.web.replication import replication_what_if_page
from tests.browser.switch.test_switch_pictures import folder, taken
from tests.support.console.consoles import Console

__all__ = ["folder"]

PAGE = "/clusters/c1/replication/what-if?broker=3"
HERE = {each: ObservedBroker(None, is_here=True) for each in (1, 2, 3)}
SOUND = ObservedPartition((3, 1, 2), (1, 2, 3), 3)


def says(monkeypatch: pytest.MonkeyPatch, loss: BrokerLoss) -> None:
    """The cluster answers so."""
    monkeypatch.setattr(replication_what_if_page, "what_if_broker_dies", lambda *_: loss)


def lost(partitions: dict[str, ObservedPartition], settings: dict[str, TopicSettings], told: bool) -> BrokerLoss:
    places = {(topic, number): led for topic, led in partitions.items() for number in range(30)}
    seen = ObservedCluster(cluster_id="k", brokers=HERE, partitions=places)
    return played(seen, 3, places, settings, {} if told else None, {1: 5_000} if told else {})


def test_the_worst_is_told_first_and_fits_any_window(
    acme: Console, open_page: Callable[..., Page], folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = TopicSettings(min_insync_replicas=2, unclean_election=False)
    partitions = {
        "acme-retail-prod-orders-of-all-countries-and-channels": SOUND,
        "acme-retail-prod-items": ObservedPartition((1, 3), (1, 3), 1),
        "acme-retail-prod-loose": ObservedPartition((3, 2), (3,), 3),
        "acme-retail-prod-lone": ObservedPartition((3,), (3,), 3),
        "acme-retail-prod-away": ObservedPartition((3, 2), (3,), -1),
        "acme-retail-prod-hidden": SOUND,
    }
    settings = {topic: usual for topic in partitions if not topic.endswith("hidden")}
    settings["acme-retail-prod-loose"] = TopicSettings(1, unclean_election=True)
    says(monkeypatch, lost(partitions, settings, told=False))
    page = open_page(acme, PAGE)

    expect(page.locator(".cockpit")).to_have_attribute("data-tone", "bad")
    expect(page.locator("#sentence")).to_contain_text("30 partitions (acme-retail-prod-loose-0")
    rows = page.locator("#outcomes li")
    expect(rows).to_have_count(7)
    assert [row.get_attribute("data-what") for row in rows.all()][:4] == [
        "unclean", "offline", "last_copy", "offline_already",
    ]  # fmt: skip
    tones = {row.get_attribute("data-what"): row.get_attribute("data-tone") for row in rows.all()}
    assert tones == {
        "unclean": "bad", "offline": "bad", "last_copy": "bad", "offline_already": "warn", "refusing": "warn",
        "uncopied": "plain", "moved": "plain",
    }  # fmt: skip
    expect(page.locator("[data-what=unclean]")).to_contain_text("acme-retail-prod-loose-5 and 24 more")
    expect(page.locator(".assumed")).to_have_count(3)
    expect(page.locator(".assumed").first).to_contain_text("1 topic could not be seen (acme-retail-prod-hidden)")
    taken(page, "what-if-bad", folder)


@pytest.mark.nightly  # the tone of good news: tests/unit; the look is that of the worst
def test_a_sound_cluster_is_good_news(
    acme: Console, open_page: Callable[..., Page], folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = TopicSettings(min_insync_replicas=2, unclean_election=False)
    says(monkeypatch, lost({"acme-retail-prod-orders": SOUND}, {"acme-retail-prod-orders": usual}, told=True))
    page = open_page(acme, PAGE)
    expect(page.locator(".cockpit")).to_have_attribute("data-tone", "good")
    expect(page.locator("#sentence")).to_have_text("If broker 3 died now, no committed record would be lost.")
    expect(page.locator(".assumed")).to_have_count(0)
    expect(page.locator("[data-what=offline]")).to_contain_text("Offline: none")
    expect(page.get_by_text("considers a silent broker dead after 5,000 ms")).to_be_visible()
    taken(page, "what-if-good", folder)
