"""POST /switches/plan on clusters that are down: its shape, refusals, what-ifs; and what is at risk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from backend.domain.switch.cluster_switch import Phase
from backend.eventlog.engine import create_engine
from backend.queries.base.observed import leases, unit_states
from tests.postgres.switch.test_discovery import MOVED, PROD, discover, start, switched, to
from tests.support.api.rest import Rest, problem
from tests.support.api.shell import Shell, shell_of
from tests.support.database.postgres import Database

WISH = {"from": "c1", "to": "c2"}
STREAM = "acme/retail/prod/orders"
C1_1 = {"cluster": "c1", "broker": 1}


def plan(rest: Rest, **changes: Any) -> dict[str, Any]:
    """The plan of c1 to c2, or of another wish."""
    answer = rest("POST", "/switches/plan", {**WISH, **changes})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def slugs(findings: list[dict[str, str]]) -> set[tuple[str, str]]:
    return {(each["slug"], each["subject"]) for each in findings}


@pytest.fixture
def orders(tenant: Rest) -> Rest:
    """acme/retail/prod with a stream that is distributed, and one that is not."""
    path = "/tenants/acme/instances/retail/environments/prod/streams"
    for body in ({"name": "orders", "partitions": 2}, {"name": "local", "distributed": False}):
        assert tenant("POST", path, body).status_code == 201
    return tenant


def test_a_plan_has_all_that_an_operator_asks_for_and_changes_nothing(orders: Rest) -> None:
    head = orders.head()
    found = plan(orders)
    assert orders.head() == head
    assert [found[name] for name in ("from", "to", "mode", "drain", "tenant")] == [
        "c1",
        "c2",
        "planned",
        "target",
        None,
    ]
    assert (found["generation"], found["position"]) == (2, head)
    assert found["moves"] == [{**PROD, "zone": None}]
    assert found["items"] == [
        {**PROD, "stream": "orders", "partition": n, "lag_records": None, "late_records": 0, "groups": []}
        for n in range(2)
    ]
    assert found["orphaned_streams"] == ["acme/retail/prod/local"]
    # c2 copies to c1 and could copy to nobody else; so c3.
    assert found["retargets"] == [] and {each["cluster"] for each in found["kept"]} == {"c2", "c3"}
    assert slugs(found["blockers"]) >= {
        ("target-offline", "c2"),
        ("source-offline", "c1"),
        ("stream-not-there", STREAM),
        ("edge-blocked", "c1:2"),
    }
    assert slugs(found["warnings"]) >= {("source-is-primary", "c1"), ("stream-orphaned", "acme/retail/prod/local")}
    assert found["expected_ms"] == sum(part["ms"] for part in found["expected"])
    assert len(found["digest"]) == 64 and plan(orders)["digest"] == found["digest"]


def test_an_emergency_is_only_refused_what_cannot_be_done(orders: Rest) -> None:
    found = plan(orders, mode="emergency", tenant="acme")
    assert slugs(found["blockers"]) == {("target-offline", "c2")}
    assert ("source-offline", "c1") in slugs(found["warnings"])
    assert (found["late_records"], found["late_from"]) == (None, "observations")


def test_clients_are_named_and_the_silent_ones_apart(orders: Rest, database: Database) -> None:
    discover(orders, client_id="orders-1", role="producer", zone="az1", generation=1)
    discover(orders, client_id="gone-1", role="consumer", generation=1)
    engine = create_engine(database.url)
    with engine.begin() as connection:
        past = "UPDATE discovery_clients SET seen_at = seen_at - interval '1 hour' WHERE client_id = 'gone-1'"
        connection.execute(sa.text(past))
    engine.dispose()
    found = plan(orders)
    assert [(row["client_id"], row["zone"], row["role"]) for row in found["clients"]] == [
        ("gone-1", None, "consumer"),
        ("orders-1", "az1", "producer"),
    ]
    assert found["unreachable_clients"] == ["gone-1"]
    assert ("client-silent", "gone-1") in slugs(found["warnings"])
    assert [row["client_id"] for row in plan(orders, zone="az1")["clients"]] == ["orders-1"]


def test_a_tenant_that_moves_is_not_moved_twice(orders: Rest) -> None:
    switched(orders, start(), to(Phase.HOLDING))
    assert ("tenant-moving", "acme") in slugs(plan(orders)["blockers"])
    switched(orders, *MOVED[1:])
    assert ("nothing-to-move", "c1") in slugs(plan(orders)["blockers"])
    back = plan(orders, **{"from": "c2", "to": "c1"})
    assert (back["generation"], back["moves"]) == (3, [{**PROD, "zone": None}])
    assert ("same-cluster", "c2") in slugs(plan(orders, **{"from": "c2"})["blockers"])


def test_a_cluster_in_no_tree_is_no_target(orders: Rest) -> None:
    orders.add_clusters("c9")
    assert ("target-not-in-tree", "c9") in slugs(plan(orders, to="c9")["blockers"])
    assert ("source-not-in-tree", "c9") in slugs(plan(orders, **{"from": "c9"})["blockers"])


def test_what_if_clusters_or_a_zone_were_gone(orders: Rest) -> None:
    assert plan(orders)["what_if"] is None
    assert orders("PATCH", "/clusters/c1", {"zone": "az1"}).status_code == 200
    found = plan(orders, mode="emergency", without={"clusters": ["c3"], "zones": ["az1"]})
    told = found["what_if"]
    assert told["gone"] == ["c1", "c3"]
    assert [(row["environment"], row["cluster"], row["could_go_to"]) for row in told["must_move"]] == [
        ("prod", "c1", [])
    ]
    assert ("c2", 2) in {(row["cluster"], row["level"]) for row in told["edges"]}
    assert told["records_at_risk"] == {"c1": None, "c3": None}
    assert found["digest"] != plan(orders, mode="emergency")["digest"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"from": "c8"}, "/from"),
        ({"to": "c8"}, "/to"),
        ({"without": {"clusters": ["c8"]}}, "/without/clusters"),
        ({"without": {"zones": ["az8"]}}, "/without/zones"),
        ({"without": {"brokers": [{"cluster": "c8", "broker": 1}]}}, "/without/brokers/0/cluster"),
        ({"tenant": "No Tenant"}, "/tenant"),
        ({"tenant": "globex"}, None),
        ({"tenant": "acme", "instance": "shop"}, None),
        ({"tenant": "acme", "instance": "retail", "environment": "test"}, None),
    ],
)
def test_what_nobody_has_is_404(settled: Rest, changes: dict[str, Any], pointer: str | None) -> None:
    found = problem(settled("POST", "/switches/plan", {**WISH, **changes}), 404, "not-found")
    assert [error["pointer"] for error in found["errors"]] == ([] if pointer is None else [pointer])


@pytest.mark.parametrize(
    ("changes", "pointer", "slug"),
    [
        ({"mode": "soon"}, "/mode", "invalid"),
        ({"drain": "some"}, "/drain", "invalid"),
        ({"instance": "retail"}, "/tenant", "value-invalid"),
        ({"tenant": "acme", "environment": "prod"}, "/instance", "value-invalid"),
        ({"from": 1}, "/from", "invalid"),
        ({"zone": ""}, "/zone", "invalid"),
        ({"without": {"cluster": []}}, "/without/cluster", "invalid"),
        ({"when": "now"}, "/when", "invalid"),
        ({"without": {"brokers": [{"cluster": "c1", "broker": -1}]}}, "/without/brokers/0/broker", "invalid"),
        ({"without": {"brokers": [C1_1, {**C1_1, "broker": 2}]}}, "/without/brokers/1", "value-invalid"),
        ({"without": {"brokers": [C1_1], "clusters": ["c1"]}}, "/without/brokers/0", "value-invalid"),
    ],
)
def test_what_makes_no_sense_is_422(settled: Rest, changes: dict[str, Any], pointer: str, slug: str) -> None:
    found = problem(settled("POST", "/switches/plan", {**WISH, **changes}), 422, slug)
    assert pointer in [error["pointer"] for error in found["errors"]]


def test_a_silent_cluster_cannot_say_what_would_be_lost_with_a_broker(orders: Rest) -> None:
    answer = orders("POST", "/switches/plan", {**WISH, "mode": "emergency", "without": {"brokers": [C1_1]}})
    found = problem(answer, 503, "cluster-silent")
    assert [error["pointer"] for error in found["errors"]] == ["/without/brokers/0"]
    assert "broker 1 of c1 cannot be predicted" in found["detail"] and "no broker answers at" in found["detail"]
    assert "Retry when c1 answers, or remove this broker" in found["detail"]


def test_without_a_tree_there_is_nobody_to_move(clusters: Rest) -> None:
    assert slugs(plan(clusters)["blockers"]) >= {("nothing-to-move", "c1"), ("target-not-in-tree", "c2")}


# --- the command line


def test_the_plan_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    words = ("switch", "plan", "--from", "c1", "--to", "c2", "--tenant", "acme")
    shown = shell(*words)
    assert shown.exit_code == 1, "something stands against it"
    assert "orde" in shown.stdout, "folded where the window is narrow"
    assert "target-offline" in shown.stderr and "Digest" in shown.stderr
    found = shell(*words, "--emergency", "--drain", "all_leaves", "-o", "json")
    plan = json.loads(found.stdout)
    assert (plan["mode"], plan["drain"], plan["tenant"]) == ("emergency", "all_leaves", "acme")
    export = tmp_path / "plan.json"
    told = shell(*words, "--without-cluster", "c1", "--without-zone", "az9", "--export", str(export))
    assert told.exit_code == 1 and "az9" in told.stderr and not export.exists()
    told = shell(*words, "--without-cluster", "c1", "--export", str(export))
    assert "stops: its source is gone" in told.stderr
    assert json.loads(export.read_text())["what_if"]["gone"] == ["c1"]
    assert shell(*words, "--environment", "prod").exit_code == 2, "of which instance"
    for wrong in ("c1", "c1/x", "/1"):
        refused = shell(*words, "--without-broker", wrong)
        assert refused.exit_code == 2 and "such as cluster-1/3" in refused.stderr
    silent = shell(*words, "--without-broker", "c1/1")
    assert silent.exit_code == 4 and "broker 1 of c1 cannot be predicted" in silent.stderr


@pytest.fixture
def shell(orders: Rest, database: Database, tmp_path: Path) -> Iterator[Shell]:
    """The program, on a control plane with the stream."""
    with shell_of(database.url, tmp_path) as found:
        yield found


# --- at risk


def observed(database: Database, lags: dict[str, int | None], position: int) -> None:
    """Write the observations that workers make of these tasks."""
    engine = create_engine(database.url)
    unit = {
        "holder": "w", "epoch": 1, "state": "running", "target": "c2", "records_per_second": 0.0,
        "copied_records": 0, "copied_bytes": 0, "unreadable_flags": 0, "schema_holds": 0,
        "schema_held_seconds": 0.0, "schema_waits_run_out": 0, "position": position, "seen_at": sa.func.now(),
    }  # fmt: skip
    with engine.begin() as connection:
        for name, lag in lags.items():
            connection.execute(sa.insert(unit_states).values(unit=name, lag_records=lag, **unit))
            until = sa.func.now() + sa.text("interval '1 hour'")
            connection.execute(sa.insert(leases).values(unit=name, holder="w", epoch=1, expires_at=until))
    engine.dispose()


def test_at_risk_is_what_the_furthest_task_of_each_bucket_has_not_copied(orders: Rest, database: Database) -> None:
    assert orders("GET", "/clusters/c1").json()["records_at_risk"] is None, "nobody has looked"
    head = orders.head()
    lags = {"c1:2:0": 3, "c1:2:1": 4, "c2:1:0": 9, "c2:1:1": 2, "c2:2:0": 5, "c2:2:1": None, "c3:1:0": 1}
    observed(database, {f"distributor:{unit}": lag for unit, lag in lags.items()}, head)
    at_risk = {name: orders("GET", f"/clusters/{name}").json()["records_at_risk"] for name in ("c1", "c2", "c3")}
    assert at_risk == {"c1": 7, "c2": 7, "c3": None}
    assert orders("GET", f"/clusters/c1?at={head}").json()["records_at_risk"] is None
    text = orders("GET", "./metrics").text
    assert 'treeline_records_at_risk{cluster="c1"} 7.0' in text
    assert 'treeline_records_at_risk{cluster="c3"}' not in text
    emergency = plan(orders, mode="emergency")
    assert (emergency["late_records"], emergency["late_from"]) == (7, "observations")


def test_what_tasks_saw_before_they_heard_of_a_stream_does_not_count(orders: Rest, database: Database) -> None:
    observed(database, {"distributor:c1:2:0": 0, "distributor:c1:2:1": 0}, orders.head() - 1)
    assert orders("GET", "/clusters/c1").json()["records_at_risk"] is None
