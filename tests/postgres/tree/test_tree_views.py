"""The Tree page without JavaScript: what is collapsed, and what the drawer shows, by address alone."""

from __future__ import annotations

import html
import itertools
import re

import httpx2
import pytest

from tests.support.api import http
from tests.support.console.consoles import Console
from tests.support.console.large_trees import grow, report
from tests.support.console.visitors import said, visitor
from tests.support.database.postgres import Database

LATE = {"lag_records": 70, "wait_seconds": 90.0}
REFUSED = {"state": "degraded", "reason": "3 records were refused"}


def drawn(page: httpx2.Response, attribute: str) -> list[str]:
    """Return the values of a data attribute in the drawing."""
    drawing = page.text.partition('id="tree-svg"')[2].partition("</svg>\n")[0]
    return re.findall(rf'data-{attribute}="([^"]*)"', drawing)


def drawer(page: httpx2.Response) -> str:
    """Return the drawer's HTML, empty if it is closed."""
    return page.text.partition('<aside class="drawer"')[2].partition("</aside>")[0]


def text(part: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part.partition(">")[2])).split())


def links(part: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'<a [^>]*href="([^"]*)"', part)]


def first_drawing(console: Console, live: str) -> str:
    """Return the drawing that the first update brings."""
    headers = {"Authorization": f"Bearer {console.token}"}
    with http.client(base_url=console.url, headers=headers) as client, client.stream("GET", live) as answer:
        lines = answer.iter_lines()
        assert "event: diagram" in lines
        found = itertools.takewhile(bool, lines)
        return "\n".join(line.removeprefix("data: ") for line in found).strip()


def test_a_distributor_is_shown_by_its_address(console: Console, database: Database) -> None:
    names = grow(database, 5)
    report(database, names, {("c01", 3): {**REFUSED, **LATE, "records_per_second": 1200.0}})
    part = drawer(console.get("/tree?open=c01:3"))
    for fact in (
        "c01:3",
        "Degraded: 3 records were refused. Records wait longer than 60 s.",
        "Source c01",
        "Target c04",
        "Within 60 s late",
        "Lag 140",
        "Records/s 2.4k",
        "Wait time 90 s, late",
        "Holder w:1",
        "Settings none",
        "Level, mask, flag 3, 0111 , 0100",
        "Last hour",
    ):
        assert fact in text(part), text(part)
    assert {"/tree", "/tree/-target/c01/3", "/tree/-settings/c01/3", "/tree?open=c04", "/losses"} <= set(
        links(part)
    )
    assert any("metric=edge.lag_records" in each for each in links(part))
    assert drawer(console.get("/tree")) == ""


def test_a_cluster_is_shown_by_its_address(console: Console, database: Database) -> None:
    names = grow(database, 5, offline="c04")
    report(database, names)
    part = drawer(console.get("/tree?open=c01"))
    said_of_it = text(part)
    for fact in ("Online, but 2 of its 6 distributors have a problem.", "Zone az1", "Brokers 3", "the primary"):
        assert fact in said_of_it
    assert re.search(r"Outbound distributors L1 c01 → c02 running lag 6 .*L3 c01 → c04 blocked", said_of_it)
    assert "Inbound distributors L1 c02 → c01" in said_of_it
    assert {"/clusters/c01", "/switches/plan?from=c01", "/groups?cluster=c01", "/tree?open=c01:3"} <= set(
        links(part)
    )
    assert "Offline: it is gone." in text(drawer(console.get("/tree?open=c04")))


def test_forms_are_offered_to_those_who_may_use_them(acme: Console) -> None:
    part = drawer(visitor(acme, "viewer").get("/tree?open=c1:2"))
    assert "Change target" in text(part)
    assert not [each for each in links(part) if "/-target/" in each or "/-settings/" in each]
    assert visitor(acme, "owner").get("/tree/-drawer?open=c1:2").status_code == 403
    assert "c1:2" in text(acme.get("/tree/-drawer?open=c1:2").text)


def test_a_cluster_leads_to_the_edits_that_begin_at_it(acme: Console) -> None:
    def edits(cluster: str) -> dict[str, str]:
        part = drawer(acme.get(f"/tree?open={cluster}"))
        found = re.findall(r'<a class="strong[^"]*" href="(/tree/edit[^"]*)">([^<]*)</a>', part)
        return {label: html.unescape(address) for address, label in found}

    assert edits("c3").keys() == {"Remove from tree"}, "all clusters are in the tree"
    removing = acme.get(edits("c3")["Remove from tree"])
    assert "Remove c3" in said(removing) and "the present tree" not in said(removing)
    for name in ("c4", "c5"):
        body = {"name": name, "bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
        acme.rest.ok("POST", "/clusters", body)
        label = {"c4": "Add c4 beside it", "c5": "Add cluster beside it"}[name]
        assert edits("c3").keys() == {"Remove from tree", label}
        adding = acme.get(edits("c3")[label])
        assert ("c4 joins" in adding.text) is (name == "c4"), "of several clusters, which one is chosen there"
        assert 'id="chosen-title">' + {"c4": "c4", "c5": "c3"}[name] in adding.text
    assert edits("c5") == {}, "it is no leaf"
    offered = drawer(visitor(acme, "viewer").get("/tree?open=c3"))
    assert "Remove from tree" in text(offered) and not [each for each in links(offered) if "/edit" in each]


@pytest.mark.parametrize("opened", ["c9", "c1:9", "~r0:2:c3", "~r22:1:<b>", "~:1:"])
def test_what_there_is_not_is_said_with_a_way_back(acme: Console, opened: str) -> None:
    page = acme.get(f"/tree?open={opened}")
    assert page.status_code == 200
    assert "The tree has no such cluster or distributor" in text(drawer(page))
    assert links(drawer(page)) == ["/tree"]


def test_an_earlier_position_has_a_drawer_without_observations(acme: Console) -> None:
    part = drawer(acme.get("/tree?open=c1:2&at=7"))
    assert "Copies records from c1 to c2." in text(part)
    assert not re.search(r"State|Lag \d|Holder|Last hour|Change target", text(part))
    assert "hx-get" not in part
    assert all("at=7" in each for each in links(part)), "links stay at the position"
    alone = links(acme.get("/tree/-drawer?open=c1&at=7").text)
    assert alone
    assert all("at=7" in each for each in alone)
    assert acme.get("/tree/-drawer?open=c1&at=999").status_code == 422


def test_collapsed_subtrees_are_boxes_with_counts_and_merged_edges(console: Console, database: Database) -> None:
    names = grow(database, 12)
    report(database, names, {("c01", 4): LATE, ("c02", 1): REFUSED})
    page = console.get("/tree?collapsed=r0")
    assert drawn(page, "cluster") == ["~r0", *names[6:]]
    keys = drawn(page, "distributor")
    assert len(keys) == len(set(keys))
    assert not [key for key in keys if key.startswith("c01:3")], "edges within it are not drawn"
    assert "6 clusters, 2 problems" in said(page)
    merged = [key for key in keys if key.startswith("~r0:")]
    assert merged == [], "each of its leaves copies to another cluster"
    both = console.get("/tree?collapsed=r0,r1&open=~r0:4:~r1")
    assert drawn(both, "distributor") == ["~r0:4:~r1", "~r1:4:~r0"]
    assert re.search(
        r'aria-label="6 distributors of level 4: 6 running, 1 late, 2.9k records per second', both.text
    )
    shown = text(drawer(both))
    assert "6 distributors of level 4 Close 1 distributor with a problem." in shown
    assert "L4 c01 → c07 running late lag 140" in shown
    assert "/tree?collapsed=r0,r1&open=c01:4" in links(drawer(both))


def test_a_large_tree_begins_with_quiet_subtrees_collapsed(console: Console, database: Database) -> None:
    names = grow(database, 50, offline="c20")
    report(database, names)
    page = console.get("/tree")
    ends = drawn(page, "cluster")
    assert "c20" in ends
    assert len(ends) < 20
    assert "49 of 50" in said(page)
    shown = len(drawn(page, "distributor"))
    whole = console.get("/tree?collapsed=none")
    assert drawn(whole, "cluster") == names
    assert len(drawn(whole, "distributor")) == 286 > 2 * shown
    # The updates keep what was collapsed when the page was opened, whatever happens later.
    (live,) = re.findall(r'sse-connect="([^"]*)"', page.text)
    places = live.partition("collapsed=")[2].split(",")
    assert len(places) == sum(key.startswith("~") for key in ends)
    assert re.findall(r'sse-connect="([^"]*)"', whole.text) == ["/tree/live?collapsed=none"]
    assert first_drawing(console, live) in page.text, "the first update has what the page has drawn"
    # Problems are labelled, and nothing else: the arrows of other distributors say it when pointed at.
    assert page.text.count("arrow level-") == shown
    assert len(re.findall(r'class="arrow level-\d problem"', page.text)) >= 6
