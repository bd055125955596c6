"""Steps of a first run: what is next, what was found, and when they are no longer shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from backend.domain.overview.first_run import (
    LONGEST_SHOWN,
    SHOWN_FOR,
    Arrival,
    FirstCluster,
    FirstRunFacts,
    Places,
    Produced,
    Step,
    first_run,
    tree_of,
)
from backend.domain.tree import tree_shape
from backend.domain.tree.tree_edit import Draft, edited, read_steps

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
TWO = (
    FirstCluster(name="c1", is_online=True, brokers=3),
    FirstCluster(name="c2", is_online=False, reason="refused"),
)
ORDERS = Places(tenant="acme", instance="retail", environment="prod", stream="orders", declared_at=NOW)
ARRIVED = Arrival(stream="acme/retail/prod/orders", source="c1", target="c2", latency_ms=412)
EMPTY = FirstRunFacts(now=NOW, clusters=())
FORMED = FirstRunFacts(now=NOW, clusters=TWO, has_tree=True, places=ORDERS)


def progress(steps: tuple[Step, ...]) -> list[str]:
    return [str(each.progress) for each in steps]


def found(step: Step) -> list[str]:
    return [each.text for each in step.findings]


@pytest.mark.parametrize(
    "facts, expected, way",
    [
        (EMPTY, ["next", "later", "later", "later"], "/clusters/-new"),
        (replace(EMPTY, clusters=TWO[:1]), ["next", "later", "later", "later"], "/clusters/-new"),
        (
            replace(EMPTY, clusters=TWO),
            ["done", "next", "later", "later"],
            "/tree/edit?steps=begin:r:c1,add:r:c2",
        ),
        (replace(FORMED, places=Places()), ["done", "done", "next", "later"], "/tenants/-new"),
        (
            replace(FORMED, places=Places(tenant="acme", instance="retail")),
            ["done", "done", "next", "later"],
            "/tenants/acme/retail/-new",
        ),
        (FORMED, ["done", "done", "done", "next"], "/tenants/acme/retail/prod/orders/-messages/-produce"),
    ],
)
def test_the_first_step_that_is_not_done_is_next(facts: FirstRunFacts, expected: list[str], way: str) -> None:
    steps = first_run(facts)
    assert progress(steps) == expected and [each.number for each in steps] == [1, 2, 3, 4]
    (following,) = [each for each in steps if each.progress == "next"]
    assert following.way is not None and following.way.address == way


@pytest.mark.parametrize(
    "places, label, way",
    [
        (Places(tenant="acme"), "Create instance", "/tenants/acme/-new"),
        (Places(tenant="acme", instance="a"), "Create environment", "/tenants/acme/a/-new"),
        (Places(tenant="acme", instance="a", environment="p"), "Declare stream", "/tenants/acme/a/p/-new"),
    ],
)
def test_a_tenant_begins_with_its_streams(places: Places, label: str, way: str) -> None:
    first, second = first_run(FirstRunFacts(now=NOW, clusters=None, places=places))
    assert (first.number, first.progress, second.progress) == (1, "next", "later")
    assert first.way is not None and (first.way.label, first.way.address, first.way.tenant) == (label, way, "acme")


def test_each_cluster_shows_what_the_connection_found() -> None:
    (first, *_) = first_run(replace(EMPTY, clusters=TWO))
    assert found(first) == [
        "c1 is online, 3 brokers.",
        "c2 is offline: refused. Check its bootstrap servers and client properties.",
    ]
    assert first.findings[1].address == "/clusters/c2/-change" and not first.findings[1].is_good
    assert found(first_run(FORMED)[0]) == ["1 of 2 clusters online."]


def test_an_arrived_record_is_shown_for_a_while_with_its_trace() -> None:
    produced = Produced(cluster="c1", partition=2, offset=41)
    waiting = first_run(replace(FORMED, produced=produced))[3]
    assert found(waiting) == ["A message was produced on c1; its copies are awaited."]
    facts = replace(FORMED, arrival=ARRIVED, produced=produced)
    steps = first_run(facts)
    assert progress(steps) == ["done"] * 4
    assert found(steps[3]) == ["A record of acme/retail/prod/orders on c1 arrived on c2 after 0.4 s."]
    assert steps[3].way is not None
    assert parse_qs(urlsplit(steps[3].way.address).query) == {
        "stream": ["acme/retail/prod/orders"],
        "cluster": ["c1"],
        "partition": ["2"],
        "offset": ["41"],
    }
    other = first_run(replace(facts, arrival=replace(ARRIVED, stream="acme/retail/prod/items")))[3]
    assert other.way is not None and other.way.address == "/trace?stream=acme/retail/prod/items&cluster=c1"
    assert first_run(replace(facts, now=NOW + SHOWN_FOR)) != ()
    assert first_run(replace(facts, now=NOW + SHOWN_FOR + timedelta(seconds=1))) == ()


def test_copied_records_are_an_arrival_even_if_it_is_not_known_which_arrived_where() -> None:
    facts = replace(FORMED, has_copied=True)
    steps = first_run(facts)
    assert progress(steps) == ["done"] * 4 and steps[3].way is None
    assert found(steps[3]) == ["Distributors have copied records."]
    assert first_run(replace(facts, now=NOW + SHOWN_FOR + timedelta(seconds=1))) == ()


@pytest.mark.parametrize(
    "less", [{"clusters": ()}, {"has_tree": False}, {"places": Places(tenant="acme", declared_at=NOW)}]
)
def test_steps_that_were_done_once_never_come_back(less: dict[str, Any]) -> None:
    later = NOW + SHOWN_FOR + timedelta(seconds=1)
    assert first_run(replace(FORMED, now=later, **less)) != (), "no record has arrived yet"
    for arrived in ({"arrival": ARRIVED}, {"has_copied": True}):
        assert first_run(replace(FORMED, now=later, **less, **arrived)) == ()
    assert first_run(replace(FORMED, now=NOW + LONGEST_SHOWN, **less)) != ()
    assert first_run(replace(FORMED, now=NOW + LONGEST_SHOWN + timedelta(seconds=1), **less)) == ()


@pytest.mark.parametrize("count", range(2, 10))
def test_the_editor_opens_with_a_valid_tree(count: int) -> None:
    names = [f"c{number}" for number in range(count)]
    (steps,) = parse_qs(urlsplit(tree_of(names)).query)["steps"]
    root = edited(Draft(None), read_steps(steps), count).root
    assert list(tree_shape.leaves(tree_shape.parse(root, names))) == names[:6]
