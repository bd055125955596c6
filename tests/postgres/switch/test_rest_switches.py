"""Switches over HTTP, without brokers: their shape, refusals, force, and targets that an abort takes back."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from backend import deciders
from backend.changes.switches import abort_commands
from backend.dispatch import Directed
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.switch.cluster_switch import Phase, Retarget
from backend.domain.switch.switch_commands import WORKER, Abort, Complete, Force, RecordArrived, StartSwitch
from backend.domain.tree.tree import SwitchTarget
from backend.eventlog.recorded import Metadata
from backend.queries.switch import discovery_clients
from backend.queries.switch.switch_clients import clients_of, silent_clients
from backend.queries.switch.switches import find_switch, running_switches
from tests.postgres.switch.test_discovery import MOVED, PROD, discover, start, switched, to
from tests.support.api.rest import Rest, problem
from tests.support.api.streams import worker_records

EMERGENCY = {"from": "c1", "to": "c2", "mode": "emergency"}
STEPS = [to(phase) for phase in (Phase.HOLDING, Phase.DRAINING, Phase.CLOSING)]
OTHER = Retarget(cluster="c1", level=2, target="c3", previous="c2")
"""Targets of the records of c1 while clients leave c2."""


@pytest.fixture
def online(tenant: Rest) -> Rest:
    """c2 answers, as far as a worker has seen."""
    command = RecordOnline(kafka_cluster_id="kafka-c2", brokers=1)
    worker_records(tenant, command, deciders.CLUSTER, "cluster-c2")
    return tenant


def leaving_c2() -> StartSwitch:
    """A whole cluster is left; the one distributor with a choice gets another target."""
    return replace(start(source="c2", target="c1"), retargets=(OTHER,))


def retargeted(rest: Rest) -> None:
    """The switch is about to move, with its targets changed; as the runner does it."""
    switched(rest, leaving_c2(), *STEPS)
    phase, how = to(Phase.RETARGETING), Metadata(actor="tests", request_id="tests")
    target = SwitchTarget(cluster="c1", level=2, target="c3")
    commands = [Directed(deciders.SWITCH, "switch-s1", phase, how)]
    commands.append(Directed(deciders.TREE, "tree-main", target, how))
    app: Any = rest.client.app  # type: ignore[attr-defined]
    app.state.services.dispatcher.execute_many(commands, time=datetime.now(UTC))
    assert target_of(rest) == "c3"


def target_of(rest: Rest) -> str:
    """Return the cluster to which c1 copies at level 2."""
    target: str = rest("GET", "/trees/main/distributors/c1/2").json()["target"]
    return target


def get(rest: Rest, query: str = "") -> dict[str, Any]:
    answer = rest("GET", f"/switches/s1{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# --- what is shown


def test_a_switch_has_all_that_is_known_of_it_then_and_now(tenant: Rest) -> None:
    assert tenant("GET", "/switches").json()["items"] == []
    before = tenant.head()
    switched(tenant, start(), to(Phase.HOLDING))
    held = tenant.head()
    switched(tenant, *MOVED[1:], Complete(measured={"clients": 0}, report={"duration_ms": 7}))
    found = get(tenant)
    times = [(phase.pop("started_at"), phase.pop("ended_at")) for phase in found["phases"]]
    assert found == {
        "id": "s1",
        "number": 1,
        "from": "c1",
        "to": "c2",
        "mode": "planned",
        "state": "completed",
        "generation": 2,
        "drain": "target",
        "environments": [{**PROD, "zone": None}],
        "retargets": [],
        "phases": [
            {"name": name, "measured": {"clients": 0} if name == "verifying" else {}}
            for name in ("planned", "holding", "draining", "closing", "moving", "verifying")
        ],
        "plan_digest": None,
        "reverses": None,
        "forced": [],
        "reason": None,
        "report": {"duration_ms": 7},
        "stranded_arrived": None,
        "now": None,
    }
    assert [ended for _, ended in times[:-1]] == [began for began, _ in times[1:]] and times[-1][1]
    then = get(tenant, f"?at={held}")
    assert (then["state"], then["report"], then["now"]) == ("holding", None, None)
    assert [phase["name"] for phase in then["phases"]] == ["planned", "holding"]
    assert [row["state"] for row in tenant("GET", f"/switches?at={held}").json()["items"]] == ["holding"]
    assert tenant("GET", f"/switches?at={before}").json()["items"] == []
    problem(tenant("GET", f"/switches/s1?at={before}"), 404, "not-found")


def test_the_newest_switch_comes_first_page_by_page(tenant: Rest) -> None:
    for number in (1, 2, 3):
        switch = f"s{number}"
        switched(tenant, replace(start(), switch=switch), Abort(by="operator"), switch=switch)
    first = tenant("GET", "/switches?limit=2").json()
    assert [row["id"] for row in first["items"]] == ["s3", "s2"]
    rest = tenant("GET", f"/switches?limit=2&cursor={first['next_cursor']}").json()
    assert ([row["id"] for row in rest["items"]], rest["next_cursor"]) == (["s1"], None)
    for key, found in ((10**30, 0), (-(10**30), 3)):
        cursor = base64.urlsafe_b64encode(json.dumps(key).encode()).decode()
        assert len(tenant("GET", f"/switches?cursor={cursor}").json()["items"]) == found
    other = base64.urlsafe_b64encode(b'"orders"').decode()
    problem(tenant("GET", f"/switches?cursor={other}"), 422, "value-invalid")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/switches/none"),
        ("GET", "/switches/No%20Name"),
        ("POST", "/switches/none/abort"),
        ("POST", "/switches/none/force"),
        ("POST", "/switches/none/reverse"),
        ("POST", "/switches/none/abort?dry_run=true"),
    ],
)
def test_nobody_knows_an_unknown_switch(settled: Rest, method: str, path: str) -> None:
    problem(settled(method, path), 404, "not-found")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {"from": "c1"}),
        ("", {**EMERGENCY, "mode": "hasty"}),
        ("", {**EMERGENCY, "drain": "some"}),
        ("", {**EMERGENCY, "now": True}),
        ("", {**EMERGENCY, "plan_digest": "x" * 201}),
        ("", {**EMERGENCY, "plan_digest": "\x00"}),
        ("", {**EMERGENCY, "environment": "prod"}),
        ("", {"from": "c1", "to": "c2"}),
        ("/s1/abort", {"reason": "\x00"}),
        ("/s1/abort", {"reason": 7}),
        ("/s1/abort", {"reason": "x" * 1001}),
        ("/s1/force", {"clients": "all"}),
        ("/s1/force", {"clients": ["\x00"]}),
        ("/s1/force", {"clients": [["x"]]}),
        ("/s1/reverse", {"digest": "x"}),
    ],
)
def test_what_cannot_be_meant_is_refused(settled: Rest, path: str, body: Any) -> None:
    assert settled("POST", f"/switches{path}", body).status_code == 422


# --- beginning


def test_a_planned_switch_that_cannot_be_carried_out_is_not_begun(tenant: Rest) -> None:
    head = tenant.head()
    answer = tenant("POST", "/switches", {"from": "c1", "to": "c2", "plan_digest": "x"})
    blockers = {error["detail"] for error in problem(answer, 422, "switch-blocked")["errors"]}
    assert len(blockers) >= 2, "source and target are away"
    problem(tenant("POST", "/switches", EMERGENCY), 422, "switch-blocked")
    assert tenant.head() == head


def test_an_emergency_moves_at_once_and_a_repeat_of_the_request_moves_nobody_again(online: Rest) -> None:
    head = online.head()
    dry = online("POST", "/switches?dry_run=true", EMERGENCY)
    assert (dry.status_code, dry.json()["state"]) == (202, "verifying")
    assert online.head() == head and discover(online).json()["cluster"] == "c1"
    discover(online, client_id="p", role="producer", generation=1)
    first = online("POST", "/switches", EMERGENCY, Idempotency_Key="k1")
    assert first.status_code == 202, first.text
    with online.client.app.state.services.engine.connect() as connection:
        (client,) = discovery_clients.list_clients(connection, [("acme", "retail", "prod")])
    assert client.awaited_by == first.json()["id"], "it is looked for, however late somebody can do that"
    assert first.headers["location"] == f"/api/v1/switches/{first.json()['id']}"
    told = discover(online).json()
    assert (told["cluster"], told["generation"], told["mode"]) == ("c2", 2, "emergency")
    again = online("POST", "/switches", EMERGENCY, Idempotency_Key="k1")
    assert (again.status_code, again.json()) == (202, first.json())
    assert len(online("GET", "/switches").json()["items"]) == 1
    another = {**EMERGENCY, "tenant": "acme"}
    problem(online("POST", "/switches", another, Idempotency_Key="k1"), 422, "idempotency-key-reused")
    problem(online("POST", "/switches", EMERGENCY, Idempotency_Key="k2"), 422, "switch-blocked")


def test_a_plan_that_is_not_what_would_be_done_any_more_is_refused(online: Rest) -> None:
    digest = online("POST", "/switches/plan", EMERGENCY).json()["digest"]
    body = {"name": "test"}
    assert online("POST", "/tenants/acme/instances/retail/environments", body).status_code == 201
    stale = {**EMERGENCY, "plan_digest": digest}
    problem(online("POST", "/switches", stale), 409, "plan-stale")
    fresh = online("POST", "/switches/plan", EMERGENCY).json()["digest"]
    assert online("POST", "/switches", {**stale, "plan_digest": fresh}).status_code == 202


def test_nobody_is_moved_by_two_switches(online: Rest) -> None:
    switched(online, start(), to(Phase.HOLDING))
    told = problem(online("POST", "/switches", EMERGENCY), 409, "state-conflict")
    assert "switch 1 (c1 → c2) is moving this tenant" in told["detail"]
    digest = online("POST", "/switches/plan", {**EMERGENCY, "mode": "planned"}).json()["digest"]
    planned = {"from": "c1", "to": "c2", "plan_digest": digest}
    problem(online("POST", "/switches", planned), 409, "state-conflict")
    # Of another tenant it is nobody's business.
    for path, body in (
        ("/tenants", {"name": "globex"}),
        ("/tenants/globex/instances", {"name": "retail", "tree": "main"}),
        ("/tenants/globex/instances/retail/environments", {"name": "prod"}),
    ):
        assert online("POST", path, body).status_code == 201
    assert online("POST", "/switches", {**EMERGENCY, "tenant": "globex"}).status_code == 202
    assert discover(online, tenant="globex").json()["cluster"] == "c2"
    assert (discover(online).json()["cluster"], discover(online).json()["phase"]) == ("c1", "hold")


# --- force


def test_who_was_silent_for_long_is_told_apart_from_who_is_waited_for(tenant: Rest) -> None:
    for name in ("here", "killed", "cut-off", "followed"):
        discover(tenant, client_id=name, role="producer", generation=2 if name == "followed" else 1)
    services = tenant.client.app.state.services  # type: ignore[attr-defined]
    switched(tenant, start(), to(Phase.HOLDING))
    with services.engine.begin() as connection:
        t = discovery_clients.discovery_clients
        away = {"seen_at": datetime.now(UTC) - timedelta(minutes=5)}
        connection.execute(sa.update(t).where(t.c.client_id != "here").values(away))
        connection.execute(sa.update(t).where(t.c.client_id == "killed").values(awaited_by="s1"))
        row = find_switch(connection, "s1")
        there = [each.client_id for each in clients_of(connection, row, services.config)]
        silent = [each.client_id for each in silent_clients(connection, row, services.config)]
    assert (there, silent) == (["here", "killed"], ["cut-off"])


def test_who_is_forced_is_named_and_not_waited_for(tenant: Rest) -> None:
    for name in ("orders-1", "orders-2"):
        discover(tenant, client_id=name, role="producer", generation=1)
    discover(tenant, client_id="billing", role="consumer", generation=1)
    switched(tenant, start(), to(Phase.HOLDING))

    def waiting() -> list[str]:
        return [each["client_id"] for each in get(tenant)["now"]["waiting_for"]]

    assert waiting() == ["orders-1", "orders-2"]
    refused = problem(
        tenant("POST", "/switches/s1/force", {"clients": ["orders-2", "orders-3"]}), 422, "value-invalid"
    )
    assert [each["pointer"] for each in refused["errors"]] == ["/clients/1"] and "orders-3" in refused["detail"]
    assert waiting() == ["orders-1", "orders-2"], "nobody was forced"
    found = tenant("POST", "/switches/s1/force", {"clients": ["orders-2"]})
    assert (found.status_code, found.json()["forced"]) == (202, ["orders-2"])
    assert waiting() == ["orders-1"]
    dry = tenant("POST", "/switches/s1/force?dry_run=true")
    assert dry.json()["forced"] == ["orders-1", "orders-2"] and waiting() == ["orders-1"]
    # All that are waited for now; consumers are not yet.
    assert tenant("POST", "/switches/s1/force").json()["forced"] == ["orders-1", "orders-2"]
    assert waiting() == []
    switched(tenant, *STEPS[1:])
    assert waiting() == ["billing"]
    head = tenant.head()
    assert tenant("POST", "/switches/s1/force", {"clients": ["orders-1"]}).status_code == 202
    assert tenant.head() == head, "nothing new"
    switched(tenant, *MOVED[-2:])
    problem(tenant("POST", "/switches/s1/force"), 409, "state-conflict")


def test_a_client_that_holds_is_named_again_once_its_word_has_run_out(tenant: Rest) -> None:
    discover(tenant, client_id="orders-1", role="producer", generation=1)
    switched(tenant, start(), to(Phase.HOLDING))
    discover(tenant, client_id="orders-1", role="producer", generation=1, phase="held")
    assert get(tenant)["now"]["waiting_for"] == []
    app: Any = tenant.client.app  # type: ignore[attr-defined]
    with app.state.services.engine.begin() as connection:
        later = "update discovery_clients set seen_at = seen_at - interval '14 seconds'"
        connection.exec_driver_sql(later)
    (one,) = get(tenant)["now"]["waiting_for"]
    assert (one["client_id"], one["phase"]) == ("orders-1", "held") and one["silent_ms"] >= 14_000


# --- taking back


@pytest.mark.parametrize("later", [(), (to(Phase.MOVING),), (to(Phase.MOVING), to(Phase.HOLDING))])
def test_an_abort_takes_the_targets_back_in_the_same_transaction(tenant: Rest, later: tuple[Any, ...]) -> None:
    """Targets come back even if the hold ended after they were changed, and began again."""
    retargeted(tenant)
    switched(tenant, *later)
    head = tenant.head()
    answer = tenant("POST", "/switches/s1/abort", {"reason": "not today"})
    assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (202, "aborted", "not today")
    assert target_of(tenant) == "c2"
    events = tenant("GET", f"/events?after={head}").json()["items"]
    assert {event["metadata"]["request_id"] for event in events} == {answer.headers["x-request-id"]}
    assert [event["stream"] for event in events][:2] == ["switch-s1", "tree-main"]
    # A repeat changes nothing, and what an operator does since stays.
    assert tenant("PUT", "/trees/main/targets/c1/2", {"target": "c3"}).is_success
    assert tenant("POST", "/switches/s1/abort").status_code == 202
    assert target_of(tenant) == "c3"


def test_targets_that_the_switch_has_not_changed_stay_as_they_are(tenant: Rest) -> None:
    """The operator had chosen it, before the switch came as far."""
    assert tenant("PUT", "/trees/main/targets/c1/2", {"target": "c3"}).is_success
    switched(tenant, leaving_c2(), *STEPS)
    assert tenant("POST", "/switches/s1/abort").status_code == 202
    assert target_of(tenant) == "c3"


def test_a_target_that_somebody_has_changed_since_stays(tenant: Rest) -> None:
    retargeted(tenant)
    assert tenant("PUT", "/trees/main/targets/c1/2", {"target": "c2"}).is_success
    head = tenant.head()
    assert tenant("POST", "/switches/s1/abort").status_code == 202
    assert target_of(tenant) == "c2" and tenant.head() == head + 1


def test_an_abort_is_not_refused_since_the_tree_has_no_way_back(tenant: Rest) -> None:
    """The cluster that was to be left stands elsewhere in it by now: clients must not be held for that."""
    retargeted(tenant)
    beside = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    root = {"level": 2, "children": [beside, {"cluster": "c3"}]}
    assert tenant("PUT", "/trees/main", root).status_code == 200
    assert tenant("POST", "/switches/s1/abort").json()["state"] == "aborted"
    assert target_of(tenant) == "c3" and discover(tenant).json()["phase"] == "active"


def test_a_worker_takes_back_as_an_operator_does(tenant: Rest) -> None:
    retargeted(tenant)
    app: Any = tenant.client.app  # type: ignore[attr-defined]
    abort, how = Abort(by=WORKER, reason="it lasted too long"), Metadata(actor="tests", request_id="tests")
    app.state.services.dispatcher.execute_many(
        lambda connection: abort_commands(connection, "s1", abort, how), time=datetime.now(UTC)
    )
    assert (get(tenant)["state"], get(tenant)["reason"]) == ("failed", "it lasted too long")
    assert target_of(tenant) == "c2"


def test_after_the_move_only_another_switch_leads_back(online: Rest) -> None:
    switched(online, start(), *MOVED)
    told = problem(online("POST", "/switches/s1/abort"), 409, "state-conflict")
    assert "/switches/s1/reverse" in told["detail"]
    # c1 does not answer, and the way back is a planned one.
    problem(online("POST", "/switches/s1/reverse"), 422, "switch-blocked")
    assert (discover(online).json()["cluster"], discover(online).json()["generation"]) == ("c2", 2)


def test_what_has_moved_nobody_is_not_reversed(tenant: Rest) -> None:
    switched(tenant, start(), to(Phase.HOLDING))
    told = problem(tenant("POST", "/switches/s1/reverse"), 409, "state-conflict")
    assert "/switches/s1/abort" in told["detail"]


def test_what_was_stranded_is_shown_once_it_has_come(tenant: Rest) -> None:
    emergency = replace(start(), mode="emergency")
    arrived = RecordArrived(records=3, partitions=(("acme/retail/prod/orders", 0, 5, 7),))
    switched(tenant, emergency, Complete(measured={}, report={}))
    assert carried_on(tenant) == ["s1"], "whoever comes next waits for them"
    switched(tenant, arrived, arrived)
    assert carried_on(tenant) == []
    assert get(tenant)["stranded_arrived"] == {
        "records": 3,
        "partitions": [["acme/retail/prod/orders", 0, 5, 7]],
        "lost": [],
    }


def carried_on(rest: Rest) -> list[str]:
    services = rest.client.app.state.services  # type: ignore[attr-defined]
    with services.engine.connect() as connection:
        return [row.id for row in running_switches(connection)]


def test_a_forced_client_is_forced_for_good(tenant: Rest) -> None:
    """The same is true after the hold has begun anew."""
    discover(tenant, client_id="orders-1", role="producer", generation=1)
    switched(tenant, start(), to(Phase.HOLDING), Force(clients=("orders-1",)), *STEPS[1:], to(Phase.HOLDING))
    assert get(tenant)["forced"] == ["orders-1"] and get(tenant)["now"]["waiting_for"] == []
