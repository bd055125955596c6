"""Switches, placements and operations have names in place of ids, on pages and in the timeline."""

from __future__ import annotations

from backend.domain.switch.cluster_switch import Phase
from backend.queries.base.names_of_events import name_placements, name_switches
from tests.browser.console.test_find import hits
from tests.support.console.consoles import Console
from tests.support.console.placing import ask
from tests.support.console.switching import COMPLETED, commands, start, to
from tests.support.console.visitors import said, visitor
from tests.support.database.postgres import Database


def test_a_name_has_the_number_of_the_start_and_the_clusters(acme: Console, database: Database) -> None:
    commands(database, start("later-by-name"), *COMPLETED[1:], switch="later-by-name")
    commands(database, start("a", source="c2", target="c3", generation=3), to(Phase.HOLDING), switch="a")
    ask(database, "p1", "c2")
    viewer = visitor(acme, "viewer")
    with database.engine.connect() as connection:
        found = name_switches(connection, ["a", "later-by-name", "missing"])
        placed = name_placements(connection, ["p1"])
        assert name_switches(connection, []) == {}
    assert {switch: (each.number, each.source, each.target) for switch, each in found.items()} == {
        "later-by-name": (1, "c1", "c2"),
        "a": (2, "c2", "c3"),
    }
    assert [(each.number, each.cluster) for each in placed.values()] == [(1, "c2")]
    page = viewer.get("/switches/a")
    assert '<li aria-current="page">Switch 2 · c2 → c3</li>' in page.text and "Id a" in said(page)
    assert "Switch 1 · c1 → c2" in said(viewer.get("/switches"))
    assert '<li aria-current="page">Placement 1 · c2</li>' in viewer.get("/placements/p1").text
    produced = "/tenants/acme/retail/prod/orders/-messages/-produced?cluster=c1&switch=a"
    assert "while switch 2 (c2 → c3) held or moved" in said(visitor(acme, "operator").get(produced))
    assert "while a switch held or moved" in said(visitor(acme, "owner").get(produced)), "a number counts all"
    timeline = said(viewer.get("/timeline"))
    assert "Switch 2 (c2 → c3) is holding" in timeline
    assert "Switch 1 of clients from c1 to c2 started, planned" in timeline
    assert "Placement plan for c2 requested (placement 1)" in timeline


def test_an_operation_is_called_by_what_it_changes(acme: Console) -> None:
    began = acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})["operation"]
    page = visitor(acme, "viewer").get(f"/operations/{began}")
    assert "<h1>Change of target: c1 level 2 → c3</h1>" in page.text


def test_switches_and_placements_are_found_by_their_numbers(acme: Console, database: Database) -> None:
    commands(database, *COMPLETED, switch="s1")
    commands(database, start("a", source="c2", target="c3", generation=3), switch="a")
    ask(database, "p1", "c2")
    viewer = visitor(acme, "viewer")
    found = hits(viewer.get("/find?q=switch 2"))
    assert next(each for each in found if each[0] == "switch") == ("switch", "Switch 2 · c2 → c3", "/switches/a")
    assert ("placement", "Placement 1 · c2", "/placements/p1") in hits(viewer.get("/find?q=placement 1"))
    assert ("switch", "Switch 1 · c1 → c2", "/switches/s1") in hits(viewer.get("/find?q=s1"))
    assert not [each for each in hits(visitor(acme, "member").get("/find?q=switch 2")) if each[0] == "switch"]
