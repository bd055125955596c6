"""A user's own faults: the form, its addresses, refusals, and the player."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import yaml
from playwright.sync_api import Page, expect
from starlette.datastructures import QueryParams

from backend.web.lab.lab_faults import FIRST, parse_faults
from tests.browser.switch.test_switch_pictures import folder, taken
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, said, visitor

__all__ = ["folder"]

OWN = "/drills/schedule"
CRASH = "crash 1 1000 1500"
THREE = f"{CRASH},cut 2-3 2000 800,session_expiry 2 3000"
FIELDS = "brokers=3&replication_factor=3&min_isr=2&producers=2&acks_all=true"


def own(faults: str, more: str = "") -> str:
    return f"{OWN}?faults={quote(faults)}{more}"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def test_an_address_and_the_form_s_fields_say_the_same() -> None:
    short = parse_faults(QueryParams(f"{FIELDS}&faults={quote(THREE)}"))
    filled = parse_faults(
        QueryParams(
            f"{FIELDS}&broker=1&fault=crash&other=&at_ms=1000&for_ms=1500"
            "&broker=2&fault=cut&other=3&at_ms=2000&for_ms=800"
            "&broker=2&fault=session_expiry&other=&at_ms=3000&for_ms=77"
            "&broker=2&fault=&other=&at_ms=9&for_ms=9"
        )
    )
    assert short is not None and filled is not None
    assert short.document == filled.document
    assert short.document["faults"] == [
        {"fault": "crash", "broker": 1, "at_ms": 1000, "for_ms": 1500},
        {"fault": "cut", "broker": 2, "other": 3, "at_ms": 2000, "for_ms": 800},
        {"fault": "session_expiry", "broker": 2, "at_ms": 3000},
    ]
    assert short.kept["faults"] == THREE
    assert parse_faults(QueryParams("seed=7")) is None
    assert parse_faults(QueryParams({"faults": FIRST.kept["faults"]})) == FIRST


def test_the_form_comes_first_and_leads_to_the_player(viewer: Visitor) -> None:
    assert f'href="{OWN}"' in viewer.get("/drills").text
    page = viewer.get(OWN)
    assert page.status_code == 200 and 'id="player"' not in page.text
    assert page.text.count('name="fault"') == 3, "a fault to begin with, and room for two"

    page = viewer.get(own(CRASH))
    assert "All invariants hold fixed, seed 1" in said(page)
    assert (
        "Broker 1 crashes at 1 s for 1.5 s 3 brokers, replication factor 3, min.insync.replicas 2, 1 producer"
        in said(page)
    )
    assert "Longest time without an acknowledgement:" in said(page)
    assert page.text.count('name="fault"') == 3
    ways = re.findall(r'<a class="quiet[^"]*" id="go-(\w+)" href="([^"]*)"', page.text)
    asked = parse_qs(urlsplit(html.unescape(dict(ways)["next"])).query)
    assert (asked["faults"], asked["step"], asked["mode"]) == ([CRASH], ["1"], ["fixed"])


def test_a_violation_late_in_a_long_run_is_told_from_shortly_before_with_its_picture(viewer: Visitor) -> None:
    page = viewer.get(own("crash 1 20000 3000", "&producers=2&mode=faithful&step=9999"))
    assert "A request is never answered" in said(page)
    assert re.search(r"the story begins after \d\d,\d{3}; at least", said(page))
    assert re.search(r'<text class="left-out"[^>]*>…\d{3}', page.text), "of long logs the newest are drawn"


def test_with_asynchronous_acknowledgement_what_is_gone_is_said(viewer: Visitor) -> None:
    page = viewer.get(own("power_loss 1 500 2000", "&acks_all=false&mode=faithful&seed=0"))
    assert "Recovered; records have no guarantees" in said(page)
    assert "the documents promise nothing about them" in said(page)


@some_now(
    "query, sentence",
    [
        (f"faults={quote('crash 4 1000 1500')}", "there is no broker 4; there are 1 to 3"),
        (f"faults={quote('crash 1 1000')}", "is never healed"),
        (f"faults={quote('melt 1 1000 5')}", "Fault 1 is a 'melt', which is unknown"),
        (f"faults={quote('crash x 1000 5')}", "broker is 'x'"),
        (f"faults={quote('crash 1 1000 nan')}", "for_ms is nan"),
        ("faults=crash", "it must be fault, broker, at_ms and for_ms"),
        ("faults=", "at least one fault"),
        ("faults=" + "a" * 9000, "9,000 characters long"),
        (f"faults={quote(CRASH)}&brokers=2", "replication_factor is 3, but there are 2 brokers"),
        (f"faults={quote(CRASH)}&min_isr=many", "min_isr is 'many'"),
        (f"faults={quote(CRASH)}&mode=quick", "There is no mode 'quick'"),
        (f"faults={quote(CRASH)}&seed=-1", "The seed is '-1'"),
        ("fault=crash&broker=&at_ms=5&for_ms=5", "has no broker"),
        (f"faults={quote('<script>alert(1)</script> 1 2 3')}", "which is unknown"),
    ],
    now=(0, 3),
)
def test_what_cannot_be_played_is_said_above_the_form_which_keeps_what_was_given(
    viewer: Visitor, query: str, sentence: str
) -> None:
    page = viewer.get(f"{OWN}?{query}")
    assert page.status_code == 422 and sentence in said(page), said(page)
    assert 'id="faults"' in page.text and "<script>alert" not in page.text


def test_the_same_is_had_by_the_command_line(viewer: Visitor) -> None:
    page = viewer.get(own(THREE, "&seed=7"))
    command = code(page, "same-command")
    assert command.startswith("treeline drill replication --schedule - --mode fixed --seed 7 <<< '")
    document = command.split("<<< '")[1].rstrip("'")
    assert len(yaml.safe_load(document)["faults"]) == 3
    treeline = str(Path(sys.executable).with_name("treeline"))
    run = [treeline, "drill", "replication", "--schedule", "-", "--seed", "7"]
    told = subprocess.run(run, input=document, capture_output=True, text=True, check=True).stdout
    gap = re.search(r"Longest time without an acknowledgement: [\d,]+ ms", told)
    assert gap is not None and gap[0] in said(page)


def test_the_page_is_for_those_who_see_the_estate(acme: Console) -> None:
    assert visitor(acme, "owner").get(OWN).status_code == 403


@pytest.mark.nightly  # the form without a browser stays; the player in test_lab_player_in_browser
def test_a_fault_is_composed_and_played_in_the_browser(
    console: Console, open_page: Callable[..., Page], folder: Path | None
) -> None:
    page = open_page(console, "/drills")
    page.get_by_role("link", name="Play your own faults").click()
    page.get_by_label("Broker of fault 2").fill("2")
    page.get_by_label("Kind of fault 2").select_option("pause")
    page.get_by_label("Start of fault 2").fill("2000")
    page.get_by_label("Duration of fault 2").fill("3000")
    taken(page, "lab-faults-form", folder)
    page.get_by_role("button", name="Play").last.click()
    expect(page.locator("h1")).to_have_text("Broker 1 crashes at 1 s for 4.5 s; broker 2 is paused at 2 s for 3 s")
    page.keyboard.press("End")
    expect(page.locator("#sentence")).to_contain_text("All replicas are in sync with the same log")
    page.locator("#story a", has_text="Broker 2 is paused").first.click()
    expect(page.locator("#broker-2")).to_contain_text("paused")
    taken(page, "lab-faults", folder)
    page.get_by_role("textbox", name="Seed").first.fill("5")
    page.get_by_role("button", name="Use this seed").click()
    expect(page.locator("#outcome")).to_contain_text("fixed, seed 5")
    expect(page.get_by_label("Kind of fault 2")).to_have_value("pause")
