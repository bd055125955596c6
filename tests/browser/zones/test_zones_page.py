"""The page Zones, with reports as nodes send them, and its pictures."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, rows, said, visitor
from tests.support.console.zoning import MIB, begin, reports
from tests.support.database.postgres import Database
from tests.support.zones.zone_reports import pass_time, report

PAGE = "/zones"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def cells(page: httpx2.Response, plane: str) -> dict[str, tuple[str, str]]:
    """Return the cells of a plane's matrix: from:to -> its classes and its text."""
    (matrix,) = re.findall(rf'data-plane="{plane}".*?</section>', page.text, re.DOTALL)
    found = re.findall(r'<td class="number ([^"]*)" data-way="([^"]*)">([^<]*)</td>', matrix)
    return {way: (classes, text) for classes, way, text in found}


def test_without_a_router_it_says_how_to_have_one(viewer: Visitor) -> None:
    page = viewer.get(PAGE)
    assert "No zone router" in said(page) and "Add zones: true to the estate file" in said(page)
    assert "control: url: https://treeline.example" in said(page)
    assert 'href="/zones" aria-current="page"' in page.text and 'id="epochs"' not in page.text


def test_all_is_well(acme: Console, viewer: Visitor, database: Database) -> None:
    begin(database, 43, committed=41)
    reports(acme, epochs=(41, 41, 41))
    page = viewer.get(PAGE)
    assert "Clients stay in their zones" in said(page) and 'data-tone="good"' in page.text
    assert "Clients produced and consumed 7.8 GiB, of which 0 B crossed zones." in said(page)
    assert "3 zones · 3 nodes · last report " in said(page)
    assert re.findall(r'data-epoch="(\w+)"><dt>\w+</dt><dd class="value">(\d+)', page.text) == [
        ("current", "43"),
        ("fenced", "41"),
        ("committed", "41"),
    ]
    strip = re.findall(r'<li data-state="(\w+)"><span aria-hidden="true">(\d+)', page.text)
    assert strip[-3:] == [("committed", "41"), ("open", "42"), ("open", "43")] and len(strip) == 12
    assert 'id="held-back"' not in page.text


def test_the_map_has_who_stands_where(acme: Console, viewer: Visitor) -> None:
    reports(acme)
    proxy = {**report("az3", 9), "node": "zr-other", "serves": ["proxy"], "cluster": None, "broker": None}
    acme.rest.ok("POST", "/route-epochs/reports", {**proxy, "stands_for": {"c2": [7]}})
    found = rows(viewer.get(PAGE), "data-broker")
    assert found["c1:1"] == "c1:1 az1 zr-az1 zr-az1 zr-az2 zr-az3"
    assert found["c2:7"] == "c2:7 none none none zr-other"
    assert viewer.get(PAGE).text.count('class="home"') == 3


def test_a_node_that_is_dead_is_marked_and_held_back_is_explained(
    acme: Console, viewer: Visitor, database: Database
) -> None:
    begin(database, 43)
    reports(acme, epochs=(41, 41, 39))
    pass_time(database, 0, since=600)
    pass_time(database, 45, "zr-az2")
    page = viewer.get(PAGE)
    assert "1 node unreachable" in said(page) and 'data-tone="warn"' in page.text
    assert "zr-az2 has stopped reporting. Other nodes of the zone serve its brokers; without any, " in said(page)
    assert rows(page, "data-broker")["c1:2"] == "c1:2 az2 zr-az2 unreachable zr-az1 zr-az2 unreachable zr-az3"
    reported = r"zr-az2 az2 unreachable \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC "
    assert re.match(reported, rows(page, "data-node")["zr-az2"]), "relative where a script can keep it true"
    assert next(iter(rows(page, "data-node"))) == "zr-az2", "those that are dead first"
    held = re.search(r'id="held-back">(.*?)</ul>', page.text, re.DOTALL)
    assert held is not None and "<strong>zr-az3</strong>, at epoch 39</li>" in held[1]
    assert "zr-az2" not in held[1], "it is as far as what is fenced"
    reports(acme, epochs=(None, 7, 41))
    pass_time(database, 45, "zr-az2")
    text = said(viewer.get(PAGE))
    assert "Committed epoch held back by zr-az1 , no epoch reported zr-az2 , at epoch 7" in text
    assert "unreachable with 4 open streams. If the node will not return, run treeline zones forget zr-az2" in text


def test_payload_that_crossed_a_border_is_wrong_and_nothing_else(acme: Console, viewer: Visitor) -> None:
    reports(acme, crossing=3 * MIB)
    page = viewer.get(PAGE)
    assert "Consumed across zones: the router file has no reads section" in said(page)
    assert "Produced across zones" not in said(page)
    assert "3.0 MiB of payload crossed zones" in said(page) and 'data-tone="bad"' in page.text
    fetch = cells(page, "fetch")
    assert [way for way, (classes, _) in fetch.items() if "wrong-way" in classes] == ["az1:az2"]
    assert fetch["az1:az2"] == ("away shade-1 wrong-way", "3.0 MiB")
    assert fetch["az1:az1"] == ("home shade-7", "2.4 GiB") and fetch["az2:az1"] == ("away shade-0", "0")
    assert not any("wrong-way" in classes for classes, _ in cells(page, "route").values())
    assert "transaction" not in re.findall(r'data-plane="(\w+)"', page.text), "nothing of it went anywhere"


def test_bytes_of_clients_that_no_zone_is_known_of_are_shown_and_not_judged(
    acme: Console, viewer: Visitor
) -> None:
    hop = {"plane": "produce", "from_zone": "unknown", "to_zone": "az1", "bytes": 2048}
    acme.rest.ok("POST", "/route-epochs/reports", report("az1", 1, traffic=[hop]))
    page = viewer.get(PAGE)
    assert cells(page, "produce")["unknown:az1"] == ("unknown shade-7", "2.0 KiB")
    assert "Clients stay in their zones" in said(page)


@pytest.mark.nightly  # one dead node is marked in the test of a node that is dead
def test_where_all_are_dead_nothing_is_told_to_be_well(acme: Console, viewer: Visitor, database: Database) -> None:
    reports(acme)
    pass_time(database, 300)
    page = viewer.get(PAGE)
    assert "All nodes unreachable" in said(page) and 'data-tone="bad"' in page.text


def test_epochs_that_stand_still_are_noticed(acme: Console, viewer: Visitor, database: Database) -> None:
    reports(acme)
    assert "Epochs stalled" not in said(viewer.get(PAGE))
    pass_time(database, 0, since=100)
    page = viewer.get(PAGE)
    assert "Epochs stalled" in said(page) and "Check that a worker is running" in said(page)


def test_many_brokers_and_nodes_are_bounded(acme: Console, viewer: Visitor) -> None:
    reports(acme, stands_for={"c1": list(range(1, 300))})
    page = viewer.get(PAGE)
    assert len(rows(page, "data-broker")) == 200 and "99 more brokers are not shown" in said(page)


def test_names_are_text(acme: Console, viewer: Visitor) -> None:
    told = {**report("<b>", 1), "node": "<script>", "traffic": []}
    acme.rest.ok("POST", "/route-epochs/reports", told)
    page = viewer.get(PAGE)
    assert page.status_code == 200 and "<script>" not in page.text.partition("<main>")[2]


@some_now("kind, status", [("operator", 200), ("owner", 403), ("stranger", 403)], now=(0, 1))
def test_it_is_for_those_who_see_the_estate(acme: Console, kind: str, status: int) -> None:
    who = visitor(acme, kind)
    assert who.get(PAGE).status_code == who.get(f"{PAGE}/-live").status_code == status
    assert ('href="/zones"' in who.get("/account").text) == (status == 200)


@pytest.mark.nightly  # the same script follows in test_clusters_pages
def test_it_follows_by_itself(acme: Console, database: Database, open_page) -> None:
    page = open_page(acme, PAGE)
    assert "No zone router" in page.inner_text("main")
    reports(acme)
    eventually(lambda: "Clients stay in their zones" in page.inner_text("main"), "the first reports are shown")
    assert page.is_visible('#map td[data-zone="az1"]'), "a cell of the map is not a zone of times"
    begin(database, 3)
    eventually(lambda: page.inner_text('[data-epoch="current"] .value') == "3", "the epoch is shown")
    assert page.title().startswith("Clients stay in their zones")


@pytest.mark.nightly  # for visual inspection; test_gallery checks for overflow
def test_pictures(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    page = open_page(acme, PAGE)
    taken(page, "zones-empty", folder)
    begin(database, 43, committed=39)
    reports(acme, epochs=(41, 41, 40))
    page.reload()
    taken(page, "zones", folder)
    reports(acme, epochs=(41, 12, None), crossing=19 * MIB)
    pass_time(database, 0, since=600)
    pass_time(database, 75, "zr-az2")
    page.reload()
    taken(page, "zones-trouble", folder)
