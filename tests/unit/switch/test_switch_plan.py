"""The plan of a switch: whom it moves, what stands against it, new targets, the digest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.switch import switch_plan
from backend.domain.switch.cluster_switch import Moving, Retarget
from backend.domain.switch.switch_checks import Finding
from backend.domain.switch.switch_facts import (
    ApplicationFact,
    ClientFact,
    ClusterAnswers,
    ClusterFact,
    Facts,
    GroupFact,
    NotFollowedFact,
    OffsetFact,
    SwitchRequest,
    Without,
)
from backend.domain.switch.switch_plan import generation_of, make, moves_of
from tests.unit.switch.switch_facts import FACTS, LEAVES, ORDERS, PROD, REQUEST, RUNNING, active, stream


def slugs(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(each.slug, each.subject) for each in findings]


def cluster(name: str, **changes: Any) -> dict[str, ClusterFact]:
    return {**FACTS.clusters, name: replace(FACTS.clusters[name], **changes)}


# --- whom


@pytest.mark.parametrize(
    ("wanted", "moved"),
    [
        ({}, [("prod", None), ("prod", "az1"), ("test", None)]),
        ({"environment": "test"}, [("test", None)]),
        ({"tenant": None}, [("prod", None), ("prod", "az1"), ("test", None), ("web", None)]),
        ({"zone": "az1"}, [("prod", "az1"), ("test", "az1")]),
        ({"zone": "az2"}, [("test", "az2")]),
        ({"zone": "az3"}, [("prod", "az3"), ("test", "az3")]),
        ({"source": "3"}, [("prod", "az2")]),
        ({"source": "5"}, []),
    ],
)
def test_a_request_moves_the_named_that_are_active_on_the_source(wanted, moved) -> None:
    rows = [
        active(),
        active(zone="az1"),
        active(cluster="3", zone="az2"),
        active(("acme", "retail", "test")),
        active(("globex", "shop", "web")),
    ]
    found = moves_of(rows, replace(REQUEST, **wanted))
    assert [(each.environment, each.zone) for each in found] == moved


def test_the_generation_is_above_all_that_the_moved_environments_have_in_any_zone() -> None:
    rows = [
        active(generation=3),
        active(cluster="5", generation=8, zone="az1"),
        active(("a", "b", "c"), generation=90),
    ]
    moves = moves_of(rows, REQUEST)
    assert moves == (Moving(tenant="acme", instance="retail", environment="prod"),)
    assert generation_of(rows, moves) == 9
    assert generation_of(rows, ()) == 1


# --- what stands against it


def test_nothing_stands_against_a_switch_of_a_tenant_whose_things_are_all_there() -> None:
    plan = make(FACTS, REQUEST)
    assert plan.blockers == ()
    assert slugs(plan.warnings) == [("order-on-target-only", "4")]
    assert (plan.generation, plan.lag_records, plan.late_records, plan.retargets) == (2, 0, 0, ())
    assert [(item.stream, item.partition, item.lag_records) for item in plan.items] == [
        ("orders", 0, 0),
        ("orders", 1, 0),
    ]


PENDING = {**dict.fromkeys(LEAVES, "applied"), "4": "pending"}
BILLING = ApplicationFact(application="acme/retail/prod/billing", place=PROD, applied=PENDING)
ON_TARGET = GroupFact(technical_group="g", group="g", place=PROD, client_ids=("c",), streams=frozenset({ORDERS}))
ALWAYS = [
    ({"target": "2"}, {}, [("same-cluster", "2")]),
    ({}, {"clusters": cluster("4", state="offline")}, [("target-offline", "4")]),
    ({"source": "5"}, {}, [("nothing-to-move", "5")]),
    ({}, {"busy": {"acme": "s1", "globex": "s2"}}, [("tenant-moving", "acme")]),
    (
        {"target": "9"},
        {"clusters": {**FACTS.clusters, "9": ClusterFact(name="9", zone=None, state="online")}},
        [("target-not-in-tree", "9")],
    ),
]
WHEN_PLANNED = [
    ({}, {"clusters": cluster("2", state="offline")}, [("source-offline", "2")]),
    (
        {"source": "9"},
        {
            "clusters": {**FACTS.clusters, "9": ClusterFact(name="9", zone=None, state="online")},
            "active": (active(cluster="9"),),
        },
        [("source-not-in-tree", "9")],
    ),
    ({}, {"answers": replace(FACTS.answers, silent={"2": "no answer"})}, [("source-silent", "2")]),
    ({}, {"answers": replace(FACTS.answers, silent={"4": "no answer"})}, [("target-silent", "4")]),
    ({}, {"streams": (stream(applied=PENDING),)}, [("stream-not-there", ORDERS)]),
    ({}, {"streams": (stream(partitions=3),)}, [("fewer-partitions", ORDERS)]),
    ({}, {"applications": (BILLING,)}, [("access-not-there", "acme/retail/prod/billing")]),
    ({}, {"answers": replace(FACTS.answers, groups={"4": (ON_TARGET,)})}, [("group-active-on-target", "g")]),
    ({}, {"edges": {**FACTS.edges, ("2", 3): replace(RUNNING, paused=True)}}, [("edge-paused", "2:3")]),
    ({}, {"edges": {**FACTS.edges, ("2", 3): replace(RUNNING, state="blocked")}}, [("edge-blocked", "2:3")]),
    # Records of 2 do not go to 4 by this edge.
    ({}, {"edges": {**FACTS.edges, ("2", 1): replace(RUNNING, state="blocked")}}, []),
    (
        {"drain": "all_leaves"},
        {"edges": {**FACTS.edges, ("2", 1): replace(RUNNING, state="blocked")}},
        [("edge-blocked", "2:1")],
    ),
]


@pytest.mark.parametrize(("wanted", "changes", "found"), ALWAYS)
@pytest.mark.parametrize("mode", ["planned", "emergency"])
def test_what_nothing_can_be_done_about_blocks_in_both_modes(mode, wanted, changes, found) -> None:
    plan = make(replace(FACTS, **changes), replace(REQUEST, mode=mode, **wanted))
    assert set(found) <= set(slugs(plan.blockers))
    if mode == "emergency":
        assert slugs(plan.blockers) == found


@pytest.mark.parametrize(("wanted", "changes", "found"), WHEN_PLANNED)
def test_what_a_planned_switch_waits_for_blocks_it_and_is_told_in_an_emergency(wanted, changes, found) -> None:
    facts = replace(FACTS, **changes)
    assert slugs(make(facts, replace(REQUEST, **wanted)).blockers) == found
    emergency = make(facts, replace(REQUEST, mode="emergency", **wanted))
    assert emergency.blockers == ()
    assert set(found) <= set(slugs(emergency.warnings))


def test_a_group_is_at_home_on_the_target_where_another_zone_of_its_environment_is() -> None:
    facts = replace(FACTS, answers=replace(FACTS.answers, groups={"4": (ON_TARGET,)}))
    assert make(replace(facts, active=(active(), active(cluster="4", zone="az4"))), REQUEST).blockers == ()


def test_what_an_operator_should_know_is_said() -> None:
    client = ClientFact(
        client_id="app-1",
        place=PROD,
        role="producer",
        zone=None,
        generation=1,
        phase="active",
        silent_ms=40_000,
    )
    heard = replace(client, client_id="app-0123abcd", role="consumer", silent_ms=0)
    stranger = replace(ON_TARGET, client_ids=("app", "java"))
    facts = replace(
        FACTS,
        primary="2",
        streams=(stream(), stream("acme/retail/prod/local", distributed=False)),
        clients=(client, heard),
        not_followed=(NotFollowedFact(technical_group="odd", topic="t", reason="no format"),),
        margin=frozenset({PROD}),
        edges={
            **FACTS.edges,
            ("5", 3): replace(RUNNING, paused=True),
            ("2", 3): replace(RUNNING, state="degraded"),
        },
        answers=replace(FACTS.answers, groups={"2": (stranger,)}),
    )
    plan = make(facts, REQUEST)
    assert plan.blockers == ()
    expected = {
        ("source-is-primary", "2"),
        ("order-on-target-only", "4"),
        ("stream-orphaned", "acme/retail/prod/local"),
        ("client-silent", "app-1"),
        ("client-never-reported", "g"),
        ("group-not-followed", "odd"),
        ("edge-not-running", "2:3"),
    }
    assert set(slugs(plan.warnings)) == expected
    assert plan.unreachable_clients == ("app-1",)
    assert plan.orphaned_streams == ("acme/retail/prod/local",)
    (never,) = [each for each in plan.warnings if each.slug == "client-never-reported"]
    assert never.detail.endswith(": java"), "the other one has reported, with something behind its id"
    emergency = make(facts, replace(REQUEST, mode="emergency"))
    assert ("margin-mode", "acme/retail/prod") in slugs(emergency.warnings)


@pytest.mark.parametrize(
    ("members", "heard", "strangers"),
    [
        (("app",), {"app-0123abcd": {}}, ""),
        (("app",), {"app": {}}, ""),
        # Some of them were migrated.
        (("app", "app"), {"app-0123abcd": {}}, "app"),
        (("app",), {"app-writer-0123abcd": {}}, "app"),
        (("app",), {"app-0123abcd": {"role": "producer"}}, "app"),
        (("app",), {"app-0123abcd": {"silent_ms": 3_600_000}}, "app"),
    ],
)
def test_members_that_discovery_does_not_hear_are_named(
    members: tuple[str, ...], heard: dict[str, dict[str, Any]], strangers: str
) -> None:
    group = replace(ON_TARGET, client_ids=members)
    known = ClientFact(
        client_id="", place=PROD, role="consumer", zone=None, generation=1, phase="active", silent_ms=0
    )
    clients = tuple(replace(known, client_id=name, **more) for name, more in heard.items())
    facts = replace(FACTS, clients=clients, answers=replace(FACTS.answers, groups={"2": (group,)}))
    found = [each.detail for each in make(facts, REQUEST).warnings if each.slug == "client-never-reported"]
    assert [each.rpartition(": ")[2] for each in found] == ([strangers] if strangers else [])


def test_an_edge_of_another_origin_into_the_target_is_told() -> None:
    # What is born on 1 comes to 2 by level 2 and to 4 by level 3.
    edges = {**FACTS.edges, ("1", 3): replace(RUNNING, state="blocked", reason="no answer")}
    assert ("edge-of-other-origin", "1:3") in slugs(make(replace(FACTS, edges=edges), REQUEST).warnings)


# --- items


def test_items_say_what_each_group_would_read_again() -> None:
    offset = OffsetFact(
        stream=ORDERS,
        partition=1,
        group="g",
        technical_group="t-g",
        committed=5,
        state="applied",
        re_read_bound=3,
        offset=2,
        settled=True,
    )
    here = replace(ON_TARGET, technical_group="t-g")
    facts = replace(
        FACTS,
        offsets=(offset,),
        answers=replace(
            FACTS.answers,
            lacking={(ORDERS, 0): 2, (ORDERS, 1): 4},
            ends={(ORDERS, 0): 10, (ORDERS, 1): 20},
            commits={("t-g", (ORDERS, 1)): 8},
            groups={"2": (here,), "4": (replace(here, technical_group="x"),)},
        ),
    )
    plan = make(facts, replace(REQUEST, mode="emergency"))
    assert (plan.lag_records, plan.late_records, plan.late_from) == (6, 6, "clusters")
    (group,) = plan.items[1].groups
    # It is at work, and may have read up to the log's end, 15 records behind the commit that was carried over.
    assert (group.re_read_bound, group.lag_records, group.members_on_source, group.members_on_target) == (
        3 + 15,
        12,
        1,
        1,
    )
    assert group.re_read_estimate is not None and "reads until its clients are stopped" in group.re_read_estimate
    assert make(facts, REQUEST).late_records == 0, "a planned switch waits for them"


def test_of_a_silent_source_is_told_what_was_observed() -> None:
    answers = ClusterAnswers(silent={"2": "no answer"}, in_transit=4)
    facts = replace(FACTS, answers=answers, at_risk={"2": 17})
    plan = make(facts, replace(REQUEST, mode="emergency"))
    assert (plan.lag_records, plan.late_records, plan.late_from) == (None, 21, "observations")
    assert make(replace(facts, at_risk={}), replace(REQUEST, mode="emergency")).late_records is None
    assert {item.lag_records for item in plan.items} == {None}


# --- new targets


def test_a_cluster_that_all_leave_is_copied_to_by_nobody_who_can_help_it() -> None:
    facts = replace(FACTS, targets={**FACTS.targets, ("4", 3): "2", ("5", 3): "2"})
    plan = make(facts, replace(REQUEST, tenant=None))
    # 1 targets 2 or 3; 3 has only 2 in its sibling subtree; 4 and 5 may go to 1, 2 and 3.
    assert plan.retargets == (
        Retarget(cluster="1", level=2, target="3", previous="2"),
        Retarget(cluster="4", level=3, target="1", previous="2"),
        Retarget(cluster="5", level=3, target="3", previous="2"),
    )
    assert [(each.cluster, each.level) for each in plan.kept] == [("3", 1)]
    assert "only leaf" in plan.kept[0].reason
    assert make(facts, REQUEST).retargets == (), "others stay there"
    assert make(facts, replace(REQUEST, tenant=None, zone="az1")).retargets == ()


# --- the digest


@given(
    lag=st.integers(0, 10**6),
    at_risk=st.integers(0, 10**6),
    silent_ms=st.integers(0, 10**6),
    rate=st.floats(0, 1e6),
)
def test_the_digest_does_not_depend_on_what_differs_with_every_look(lag, at_risk, silent_ms, rate) -> None:
    client = ClientFact(
        client_id="x", place=PROD, role="", zone=None, generation=1, phase="active", silent_ms=silent_ms
    )
    group = replace(ON_TARGET, client_ids=("c",) * (lag % 3))
    facts = replace(
        FACTS,
        position=lag,
        taken_at=str(lag),
        clients=(client,),
        at_risk={"2": at_risk},
        edges=dict.fromkeys(FACTS.edges, replace(RUNNING, records_per_second=rate)),
        answers=replace(FACTS.answers, lacking={(ORDERS, 0): lag, (ORDERS, 1): 0}, groups={"2": (group,)}),
    )
    assert make(facts, REQUEST).digest == make(FACTS, REQUEST).digest


@pytest.mark.parametrize(
    ("wanted", "changes"),
    [
        ({"mode": "emergency"}, {}),
        ({"drain": "all_leaves"}, {}),
        ({"tenant": None}, {}),
        ({"without": Without(clusters=frozenset({"5"}))}, {}),
        ({"without": Without(brokers=(("2", 1),))}, {}),
        ({}, {"active": (active(generation=2),)}),
        ({}, {"active": (active(), active(("acme", "retail", "test")))}),
        ({}, {"targets": {**FACTS.targets, ("2", 3): "4"}}),
        ({}, {"streams": (stream(), stream("acme/retail/prod/payments"))}),
        ({}, {"streams": (stream(partitions=1),)}),
        ({}, {"busy": {"acme": "s1"}}),
    ],
)
def test_the_digest_changes_with_what_decides_the_switch(wanted, changes) -> None:
    assert make(replace(FACTS, **changes), replace(REQUEST, **wanted)).digest != make(FACTS, REQUEST).digest


def draining_ms(facts: Facts, wanted: SwitchRequest) -> int:
    return next(part.ms for part in make(facts, wanted).expected if part.phase == "draining")


def test_producers_wait_for_what_the_target_may_still_lack_when_they_are_told_to_hold() -> None:
    def lacking(records: int | None) -> Facts:
        return replace(FACTS, answers=replace(FACTS.answers, lacking={(ORDERS, 0): records, (ORDERS, 1): 0}))

    nothing, near = draining_ms(lacking(0), REQUEST), draining_ms(lacking(5_000), REQUEST)
    assert nothing < draining_ms(lacking(1_000), REQUEST) < near
    assert draining_ms(lacking(10**9), REQUEST) == near, "nobody is held before the target is near"
    assert draining_ms(lacking(None), REQUEST) == near
    # From 2 to 1 it is one hop, from there to 4 another one; all leaves have it after two.
    assert draining_ms(FACTS, replace(REQUEST, target="1")) < nothing
    assert draining_ms(FACTS, replace(REQUEST, target="1", drain="all_leaves")) == nothing
    emergency = make(FACTS, replace(REQUEST, mode="emergency"))
    assert 0 < emergency.expected_ms < make(FACTS, REQUEST).expected_ms


def test_a_plan_is_a_document() -> None:
    document = switch_plan.make(FACTS, REQUEST).document()
    assert set(document) >= {"digest", "items", "blockers", "expected_ms", "generation", "moves", "what_if"}
    assert document["expected_ms"] == sum(part["ms"] for part in document["expected"])
