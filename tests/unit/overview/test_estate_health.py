"""The verdict on an estate: each problem, their order, causes before consequences, and the sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.offsets.group_diagnosis import NO_MEMBERS, STALLED
from backend.domain.overview.estate_facts import (
    ApplyFact,
    ClusterFact,
    DistributorFact,
    EstateFacts,
    GroupFact,
    GroupsFact,
    NodeFact,
    OpenFact,
    ReplicationFact,
    SwitchFact,
    WebhookFact,
    WorkersFact,
)
from backend.domain.overview.estate_health import estate_health
from backend.domain.overview.problems import Kind, Severity, because
from backend.domain.overview.switch_problems import STUCK_AFTER

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(minutes=3)
C1, C2, C3 = (ClusterFact(name=name) for name in ("c1", "c2", "c3"))
ONE = DistributorFact(cluster="c1", level=2, target="c2", state="running", in_time=True)
OTHER = DistributorFact(cluster="c3", level=1, target="c2", state="running", in_time=True)
WAITING = replace(
    ONE, state="starting", reason="2 of 4 tasks wait for a worker", in_time=None, waiting_since=EARLIER
)
FINE = EstateFacts(
    now=NOW,
    clusters=(C1, C2, C3),
    has_tree=True,
    distributors=(ONE, OTHER),
    workers=WorkersFact(copied_at=NOW, controlled_at=NOW),
)
LOST = (OpenFact(cluster="c1", level=2, count=2, since=EARLIER),)
REFUSED = (
    "b2:9092/bootstrap: Connect to ipv4#10.0.0.2:9092 failed: Connection refused (after 0ms in state CONNECT)"
)
AWAY = replace(C2, is_offline=True, reason=REFUSED, since=EARLIER)
STREAM = ApplyFact(cluster="c2", count=1, stream="acme/retail/prod/orders", reason="policy", since=EARLIER)
AUDIT = GroupFact(
    cluster="c1", technical_group="acme-audit", name="audit", text="No members: nobody reads.", since=EARLIER
)
SWITCH = SwitchFact(id="s1", number=12, source="c1", target="c2", phase="holding", is_holding=True, since=EARLIER)


def late(fact: DistributorFact, **changes: Any) -> DistributorFact:
    return replace(fact, in_time=False, **changes)


def alert(name: str, cluster: str = "c1", count: int = 2) -> ReplicationFact:
    return ReplicationFact(
        cluster=cluster, alert=name, count=count, examples=("orders-0", "orders-1"), what_to_do="Do it."
    )


CASES: dict[str, tuple[dict[str, Any], Kind, Severity, str, str]] = {
    "records-lost": (
        {"lost": LOST},
        Kind.DATA_LOSS,
        Severity.CRITICAL,
        "2 unacknowledged lost record ranges at c1 level 2.",
        "/losses/-acknowledge?cluster=c1&level=2",
    ),
    "records-possibly-lost": (
        {"possibly_lost": LOST},
        Kind.DATA_LOSS,
        Severity.WARNING,
        "2 possibly lost record ranges at c1 level 2.",
        "/losses/-acknowledge?cluster=c1&level=2",
    ),
    "dead-letters": (
        {"dead_letters": LOST},
        Kind.DATA_LOSS,
        Severity.WARNING,
        "2 dead letters at c1 level 2.",
        "/losses",
    ),
    "workers-silent": (
        {"workers": WorkersFact(copied_at=EARLIER, controlled_at=EARLIER)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "No worker reports: nothing is copied, and the states of clusters and groups are old.",
        "/tree",
    ),
    "copying-silent": (
        {"workers": WorkersFact(copied_at=EARLIER, controlled_at=NOW)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "No worker with the queue treeline.shifts reports: nothing is copied.",
        "/tree",
    ),
    "control-silent": (
        {"workers": WorkersFact(copied_at=NOW, controlled_at=EARLIER)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "No worker with the queue treeline.control reports: changes are not applied, and the states of clusters "
        "and groups are old.",
        "/clusters",
    ),
    "distributor-waiting": (
        {"distributors": (WAITING, OTHER)},
        Kind.AVAILABILITY,
        Severity.WARNING,
        "Distributor c1 level 2 to c2 is waiting for a worker: 2 of 4 tasks wait for a worker.",
        "/tree",
    ),
    "cluster-offline": (
        {"clusters": (C1, AWAY, C3)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "c2 is offline: Connection refused at b2:9092.",
        "/clusters/c2",
    ),
    "distributor-blocked": (
        {"distributors": (replace(ONE, state="blocked", reason="topic too small"), OTHER)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "Distributor c1 level 2 to c2 is blocked: topic too small.",
        "/tree",
    ),
    "distributor-stopped": (
        {"distributors": (replace(ONE, state="stopped"), OTHER)},
        Kind.AVAILABILITY,
        Severity.WARNING,
        "Distributor c1 level 2 to c2 is stopped.",
        "/tree",
    ),
    "distributor-degraded": (
        {"distributors": (replace(ONE, state="degraded", reason="a record is too large"), OTHER)},
        Kind.LATENESS,
        Severity.WARNING,
        "Distributor c1 level 2 to c2 is degraded: a record is too large.",
        "/tree",
    ),
    "distributor-late": (
        {"distributors": (late(ONE), OTHER)},
        Kind.LATENESS,
        Severity.WARNING,
        "Distributor c1 level 2 to c2 is late: records wait longer than the objective.",
        "/charts?metric=edge.lag_records&subject=c1%3A2",
    ),
    "switch-stuck": (
        {"switches": (replace(SWITCH, since=NOW - STUCK_AFTER - timedelta(seconds=1)),)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "Switch 12 of clients from c1 to c2 is stuck in the phase holding: the clients wait.",
        "/switches/s1",
    ),
    "switch-failed": (
        {"switches": (replace(SWITCH, has_failed=True, reason="c2 went away"),)},
        Kind.DRIFT,
        Severity.WARNING,
        "Switch 12 of clients from c1 to c2 failed: c2 went away.",
        "/switches/s1",
    ),
    "partition-without-leader": (
        {"replication": (alert("partition-without-leader"),)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "2 partitions of c1 are without a leader, such as orders-0.",
        "/clusters/c1/replication",
    ),
    "under-min-isr": (
        {"replication": (alert("under-min-isr", count=1),)},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "1 partition of c1 is below min.insync.replicas, such as orders-0.",
        "/clusters/c1/replication",
    ),
    "broker-away": (
        {"replication": (alert("broker-away"),)},
        Kind.AVAILABILITY,
        Severity.WARNING,
        "2 brokers of c1 are offline.",
        "/clusters/c1/replication",
    ),
    "under-replicated": (
        {"replication": (alert("under-replicated"), alert("leaders-uneven"))},
        Kind.AVAILABILITY,
        Severity.WARNING,
        "2 partitions of c1 are under-replicated, such as orders-0.",
        "/clusters/c1/replication",
    ),
    "zone-node-unreachable": (
        {"nodes": (NodeFact(node="zr-az1", since=EARLIER),)},
        Kind.AVAILABILITY,
        Severity.WARNING,
        "Node zr-az1 of the zone router is unreachable: the clients of its zone reach brokers in other zones.",
        "/zones",
    ),
    "projection-behind": (
        {"projections": {"streams": 12}},
        Kind.AVAILABILITY,
        Severity.CRITICAL,
        "The projection of streams lacks 12 events: pages and answers show an older state.",
        "/timeline/-rebuild",
    ),
    "group-no-members": (
        {"groups": (GroupsFact(code=NO_MEMBERS, count=1, worst=(AUDIT,)),)},
        Kind.LATENESS,
        Severity.WARNING,
        "Group audit on c1: No members: nobody reads.",
        "/groups/-of?cluster=c1&group=acme-audit",
    ),
    "stream-not-applied": (
        {"not_applied": (STREAM,)},
        Kind.DRIFT,
        Severity.WARNING,
        "Stream acme/retail/prod/orders could not be applied on c2: policy.",
        "/tenants/acme/retail/prod/orders",
    ),
    "stream-drifted": (
        {"drifted": (replace(STREAM, count=2),)},
        Kind.DRIFT,
        Severity.WARNING,
        "2 streams (acme/retail/prod/orders and others) drifted, and could not be set back, on c2: policy.",
        "/timeline?name=StreamApplyFailed",
    ),
    "webhook-failing": (
        {"webhooks": (WebhookFact(name="ops", failed=2, since=EARLIER),)},
        Kind.DRIFT,
        Severity.WARNING,
        "2 deliveries to webhook ops failed: the receiver gets no events.",
        "/webhooks/ops",
    ),
}
INFORMATION: dict[str, tuple[dict[str, Any], str]] = {
    "switch-running": ({"switches": (SWITCH,)}, "Switch 12 of clients from c1 to c2 is in progress: holding."),
    "distributor-paused": (
        {"distributors": (replace(ONE, state="paused"), OTHER)},
        "Distributor c1 level 2 to c2 is paused by an operator.",
    ),
    "distributor-starting": (
        {"distributors": (replace(ONE, state="starting", in_time=None), OTHER)},
        "Distributor c1 level 2 to c2 is starting.",
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_each_problem_says_what_is_wrong_and_leads_to_its_way_out(code: str) -> None:
    changes, kind, severity, text, address = CASES[code]
    health = estate_health(replace(FINE, **changes))
    (problem,) = health.problems
    assert (problem.code, problem.kind, problem.severity) == (code, kind, severity)
    assert (problem.text, problem.way_out.address) == (text, address)
    assert problem.advice.endswith(".") and problem.way_out.label and problem.subject
    assert health.verdict == text and not health.is_fine and health.severity is severity


@pytest.mark.parametrize("code", INFORMATION)
def test_information_is_no_problem(code: str) -> None:
    changes, text = INFORMATION[code]
    health = estate_health(replace(FINE, **changes))
    assert [(each.code, each.text) for each in health.problems] == [(code, text)]
    assert health.is_fine and health.verdict.endswith("3 of 3 clusters online.")


@pytest.mark.parametrize(
    "facts, verdict",
    [
        (FINE, "All 2 distributors in time, 0 unacknowledged losses, 3 of 3 clusters online."),
        (
            replace(FINE, distributors=(ONE, replace(OTHER, in_time=None))),
            "1 of 2 distributors in time, 1 not known yet, 0 unacknowledged losses, 3 of 3 clusters online.",
        ),
        (
            replace(FINE, distributors=(), has_tree=False),
            "3 of 3 clusters online; nothing is copied between clusters before there is a tree.",
        ),
        (
            replace(FINE, distributors=(ONE,)),
            "1 distributor in time, 0 unacknowledged losses, 3 of 3 clusters online.",
        ),
        (EstateFacts(now=NOW), "There are no clusters yet: add two to begin."),
    ],
)
def test_an_estate_in_order_is_said_in_figures(facts: EstateFacts, verdict: str) -> None:
    health = estate_health(facts)
    assert health.is_fine and health.problems == () and health.verdict == verdict


def test_figures_are_counted() -> None:
    facts = replace(FINE, lost=LOST, possibly_lost=LOST, clusters=(C1, AWAY, C3), distributors=(late(ONE), OTHER))
    assert estate_health(facts).counts == {
        "clusters": 3,
        "clusters_online": 2,
        "distributors": 2,
        "distributors_running": 2,
        "distributors_in_time": 1,
        "distributors_late": 1,
        "unacknowledged_losses": 4,
        "dead_letters": 0,
        "groups_with_problems": 0,
        "switches_running": 0,
    }


def test_problems_come_in_the_order_of_their_kinds() -> None:
    everything: dict[str, Any] = {}
    for changes, *_ in reversed([*CASES.values(), *INFORMATION.values()]):
        everything |= changes
    health = estate_health(replace(FINE, **{**everything, "workers": FINE.workers, "switches": (SWITCH,)}))
    order = list(Kind)
    ranks = [(order.index(each.kind), list(Severity).index(each.severity)) for each in health.problems]
    assert ranks == sorted(ranks) and len({rank[0] for rank in ranks}) == len(Kind)
    real = sum(each.kind is not Kind.INFORMATION for each in health.problems)
    assert health.verdict == f"2 unacknowledged lost record ranges at c1 level 2. {real - 1} more problems."


def test_consequences_of_an_offline_cluster_are_no_problems_of_their_own() -> None:
    distributors = (replace(ONE, state="blocked", reason="c2 is offline"), late(OTHER))
    health = estate_health(replace(FINE, clusters=(C1, AWAY, C3), distributors=distributors))
    assert [each.code for each in health.problems] == ["cluster-offline"]
    assert health.problems[0].since == EARLIER


def test_what_another_problem_explains_is_not_said_twice() -> None:
    degraded = replace(ONE, state="degraded", reason="1 lost range", is_explained_elsewhere=True)
    health = estate_health(replace(FINE, distributors=(degraded, OTHER), lost=LOST))
    assert [each.code for each in health.problems] == ["records-lost"]


def test_only_the_gravest_alert_of_a_cluster_is_a_problem() -> None:
    found = (alert("under-replicated"), alert("partition-without-leader"), alert("broker-away", "c3"))
    codes = [each.code for each in estate_health(replace(FINE, replication=found)).problems]
    assert codes == ["partition-without-leader", "broker-away"]


def test_groups_are_listed_by_the_gravity_of_their_diagnosis() -> None:
    worst = (AUDIT, replace(AUDIT, name="billing"))
    groups = (GroupsFact(code=NO_MEMBERS, count=7, worst=worst), GroupsFact(code=STALLED, count=1, worst=(AUDIT,)))
    health = estate_health(replace(FINE, groups=groups))
    assert [each.code for each in health.problems] == ["group-partition-stalled", "group-no-members"]
    assert health.problems[1].text == (
        "7 consumer groups have no members while records wait, such as audit on c1, billing on c1."
    )
    assert health.problems[1].way_out.address == "/groups?diagnosis=no-members"
    assert health.counts["groups_with_problems"] == 8


def test_reasons_end_a_sentence() -> None:
    assert because(None) == "." and because("it is full. ") == ": it is full."
    assert len(because("x" * 5000)) < 220


CHANGES = [*(changes for changes, *_ in CASES.values()), *(changes for changes, _ in INFORMATION.values())]


@given(st.lists(st.sampled_from(CHANGES)))
def test_the_verdict_is_fine_only_without_problems(several: list[dict[str, Any]]) -> None:
    facts = FINE
    for changes in several:
        facts = replace(facts, **changes)
    health = estate_health(facts)
    real = [each for each in health.problems if each.kind is not Kind.INFORMATION]
    assert health.is_fine == (not real)
    assert health.verdict.startswith(real[0].text if real else ("All", "1 of 2", "0 of"))
    assert all(each.severity is Severity.INFORMATION for each in health.problems if each not in real)
