"""The pages of drills as a browser without JavaScript gets them."""

from __future__ import annotations

import html
import re

import pytest

from backend.replication_lab.scenarios import SCENARIOS
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, head, rows, said, visitor

LOSS = "/drills/replication/hw-truncation-loss"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def ways(text: str) -> dict[str, str]:
    """Return the enabled navigation buttons with their addresses."""
    return {
        name: html.unescape(way)
        for name, way in re.findall(r'<a class="quiet[^"]*" id="go-(\w+)" href="([^"]*)"', text)
    }


def test_all_scenarios_are_listed_with_what_is_expected_of_each_mode(viewer: Visitor) -> None:
    page = viewer.get("/drills")
    assert 'href="/drills" aria-current="page"' in page.text
    found = rows(page, "data-scenario")
    assert list(found) == list(SCENARIOS)
    assert found["hw-truncation-loss"].endswith("a committed record is lost holds")
    links = [html.unescape(each) for each in re.findall(r'class="outcome"[^>]* href="([^"]*)"', page.text)]
    assert len(links) == 2 * len(SCENARIOS)
    assert links[:2] == [f"{LOSS}?mode=faithful&seed=1", f"{LOSS}?mode=fixed&seed=1"]
    assert "The logs of all replicas agree up to their HW if violated: logs differ below the HW" in said(page)


def test_a_drill_begins_at_its_beginning_and_goes_on_by_links(viewer: Visitor) -> None:
    page = viewer.get(LOSS)
    assert page.status_code == 200 and "The beginning Broker 1 leads; ISR {1, 2}" in said(page)
    assert set(ways(page.text)) == {"next", "last"}, "there is nothing before it"
    page = viewer.get(ways(page.text)["next"])
    assert "Step 1 of 15 Producer a sends a0." in said(page)
    assert 'aria-current="step"><span class="position">1</span>' in page.text
    assert '<li><span class="tag">1</span>producer a' in page.text, "its message is under way"
    assert set(ways(page.text)) == {"first", "previous", "next", "last"}


def test_the_last_step_says_what_is_violated_and_strikes_out_what_is_lost(viewer: Visitor) -> None:
    page = viewer.get(ways(viewer.get(LOSS).text)["last"])
    words = "a committed record is never lost while one in-sync replica is alive"
    assert f"Violated: {words}. Broker 2 leads, and its log, which ends at 2, lacks committed a0" in said(page)
    assert f"a0 is lost Violated: {words}." in said(page)
    assert page.text.count('<g class="cell lost">') == 1
    assert 'aria-label="Committed: z0, z1, a0. Lost: a0 at offset 2."' in page.text
    assert "Missing committed records: a0 at offset 2." in page.text
    assert '<div class="lane broker" id="broker-1" data-state="dead">' in page.text
    assert "next" not in ways(page.text)


def test_the_same_story_is_played_in_other_modes_with_other_seeds_and_elsewhere(viewer: Visitor) -> None:
    page = viewer.get(f"{LOSS}?seed=7")
    assert f'href="{LOSS}?mode=fixed&amp;seed=7"' in page.text
    assert f'href="{LOSS}?mode=faithful&amp;seed=8"' in page.text
    assert code(page, "same-command").endswith("--scenario hw-truncation-loss --mode faithful --seed 7")
    assert f"/api/v1{LOSS}?mode=faithful&seed=7&frames=true" in code(page, "same-curl")
    fixed = viewer.get(f"{LOSS}?mode=fixed&seed=7&step=9999")
    assert "All invariants hold fixed, seed 7" in said(fixed) and 'id="violated"' not in fixed.text
    assert "All replicas are in sync with the same log" in said(fixed)


def test_a_leader_that_the_store_does_not_name_is_doubted(viewer: Visitor) -> None:
    page = viewer.get("/drills/replication/two-leaders?step=99")
    assert re.search(r"Broker 1 alive leader the store names 2", said(page))
    assert "Violated: two brokers never commit different records at one offset." in said(page)


@some_now(
    "query, sentence",
    [
        ("mode=quick", "There is no mode 'quick'; use one of faithful, fixed"),
        ("seed=-1", "The seed is '-1': it must be a whole number."),
        ("seed=99999999999999999999", "The seed is 99999999999999999999: it must be 0 to 9223372036854775807."),
        ("step=x", "The step is 'x': it must be a whole number."),
    ],
    now=(0,),
)
def test_what_cannot_be_played_is_said_above_what_can(viewer: Visitor, query: str, sentence: str) -> None:
    page = viewer.get(f"{LOSS}?{query}")
    assert page.status_code == 422 and sentence in said(page)
    assert len(rows(page, "data-scenario")) == len(SCENARIOS)


@some_now("name", ["nothing", "%00", "NO%20NAME"], now=(1,))
def test_a_scenario_that_there_is_not_has_no_page(viewer: Visitor, name: str) -> None:
    page = viewer.get(f"/drills/replication/{name}")
    assert page.status_code == 404 and "there is no scenario" in said(page)


def test_pages_are_for_those_who_see_the_estate_and_record_nothing(acme: Console) -> None:
    owner = visitor(acme, "owner")
    assert owner.get("/drills").status_code == owner.get(LOSS).status_code == 403
    assert "/drills" not in owner.get("/tenants").text
    viewer = visitor(acme, "viewer")
    before = head(acme)
    assert viewer.get("/drills").status_code == viewer.get(LOSS).status_code == 200
    assert head(acme) == before


def test_the_page_of_placements_leads_to_drills(viewer: Visitor) -> None:
    assert '<a href="/drills">replication drills</a>' in viewer.get("/placements").text
