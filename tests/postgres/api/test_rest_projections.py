"""Projections are nothing but folded events: folding again from zero gives the same rows."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from backend import deciders
from backend.domain.access.user import LinkIdentity
from backend.domain.clusters.adoption import BeginAdoption
from backend.domain.distribution.edge_losses import RecordDeadLetter, RecordLoss
from backend.domain.distribution.leaf import EnterRoutes
from backend.domain.distribution.lost_origin import Reroot
from backend.domain.switch.cluster_switch import Moving
from backend.domain.switch.switch_commands import StartSwitch
from backend.domain.tenants.application_records import RecordAccessApplied, RecordAccessFailed
from backend.domain.webhooks.webhook import CreateWebhook
from backend.domain.zones.route_epochs import BeginEpoch
from backend.projections.catalogue import PROJECTIONS
from tests.postgres.clusters.test_rest_adoption import topic as adopted_topic
from tests.support.api.rest import Rest, problem
from tests.support.api.streams import applied, worker_records
from tests.support.database.postgres import Database


def every_row(database: Database) -> dict[str, list[Any]]:
    tables = [table for projection in PROJECTIONS for table in projection.tables]
    with database.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]
            for table in tables
        }


def live_through_everything(rest: Rest) -> None:
    environment = rest.set_up()
    rest("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    rest("PATCH", environment, {"margin_seconds": 5})
    rest("POST", f"{environment}/streams", {"name": "orders"})
    worker_records(rest, applied("c1"))
    rest("PATCH", f"{environment}/streams/orders", {"partitions": 3})
    rest("POST", f"{environment}/streams", {"name": "payments"})
    rest("DELETE", f"{environment}/streams/orders?confirm=acme/retail/prod/orders")
    smaller = {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c1"}]}
    assert rest("PUT", "/trees/main", smaller).status_code == 200
    assert rest("DELETE", "/clusters/c3").status_code == 204
    rest.add_clusters("c3")
    rest("PATCH", "/trees/main/distributors/c1/1", {"paused": True})
    rest("POST", "/users", {"name": "ada", "tenants": {"acme": "owner"}})
    rest("PATCH", "/users/ada", {"role": "viewer", "tenants": {"acme": "member"}})
    rest("POST", "/users/ada/tokens", {"name": "ci", "expires_in_days": 9})
    rest("POST", "/users/ada/tokens", {"name": "old"})
    rest("DELETE", "/users/ada/tokens/old")
    rest("PUT", "/users/ada/password", {"password": "correct horse battery"})
    live_through_applications(rest, environment)
    workers_record_the_rest(rest)


def live_through_applications(rest: Rest, environment: str) -> None:
    ask = {"name": "billing", "produces": ["payments"], "consumes": ["payments"]}
    assert rest("POST", f"{environment}/applications", ask).status_code == 201
    rest("PATCH", f"{environment}/applications/billing", {"produces": [], "request_percentage": 50})
    rest("POST", f"{environment}/applications", {"name": "audit"})
    for name, command in (
        ("billing", RecordAccessApplied(cluster="c1", revision=5, parts={"acls": "applied"})),
        ("audit", RecordAccessFailed(cluster="c2", reason="silent")),
    ):
        worker_records(rest, command, deciders.APPLICATION, f"application-acme/retail/prod/{name}")
    assert rest("GET", f"{environment}/applications/billing").json()["applied"]["c1"] == "applied"
    decision = {"application": "acme/retail/prod/billing", "stream": "acme/retail/prod/payments"}
    decision |= {"operation": "consume", "decision": "withdraw"}
    assert rest("POST", "/tenants/acme/grants", decision).status_code == 200
    assert rest("DELETE", f"{environment}/applications/audit").status_code == 204


def workers_record_the_rest(rest: Rest) -> None:
    """Record events that no request makes: barriers, re-rooting, losses, adoptions."""
    edge = {"cluster": "c1", "level": 1, "target": "c2", "stream": "acme/retail/prod/payments", "partition": 0}
    aside = RecordDeadLetter(**edge, offset=3, origin=(1, 1, 3), reason="too large")
    gone = RecordLoss(**edge, first_offset=4, last_offset=7, reason="retention", incarnation=1)
    reroot = Reroot(number=3, roots={("acme/retail/prod/payments", 0): "c1"})
    worker_records(
        rest, EnterRoutes(cluster="c1", routes=1, wanted=1, fenced=2, buckets=2), deciders.LEAF, "leaf-c1"
    )
    worker_records(rest, reroot, deciders.LOST_ORIGIN, "origin-3")
    worker_records(rest, aside, deciders.EDGE, "edge-c1-1")
    worker_records(rest, gone, deciders.EDGE, "edge-c1-1")
    move = StartSwitch(
        switch="s1",
        source="c1",
        target="c2",
        mode="emergency",
        moves=(Moving(tenant="acme", instance="retail", environment="prod"),),
        generation=2,
        busy={},
    )
    worker_records(rest, move, deciders.SWITCH, "switch-s1")
    worker_records(rest, BeginEpoch(fence_lag=2, nodes=()), deciders.ROUTE_EPOCHS, "route-epochs")
    link = LinkIdentity(issuer="https://id.example", subject="00u1")
    worker_records(rest, link, deciders.USER, "user-ada")
    create = CreateWebhook(
        webhook="ops", url="https://receiver.example/t", events=("switch",), enabled=True, webhooks=0
    )
    worker_records(rest, create, deciders.WEBHOOK, "webhook-ops")
    asked = rest("POST", "/placements", {"cluster": "c1"})
    assert asked.status_code == 202, asked.text
    policy = rest("PUT", "/clusters/c1/placement-policy", {"policy": "off"})
    assert policy.status_code == 200, policy.text
    adopted = adopted_topic("parcels")
    worker_records(rest, BeginAdoption(cluster="c1", topics=(adopted,)), deciders.ADOPTION, "adoption-c1")


def test_a_rebuild_gives_the_same_rows(rest: Rest, database: Database) -> None:
    live_through_everything(rest)
    before = every_row(database)
    assert all(before.values())
    answer = rest("POST", "/projections/rebuild")
    assert answer.status_code == 200, answer.text
    rebuilt = {row["name"]: row["position"] for row in answer.json()["items"]}
    assert rebuilt == {projection.name: rest.head() for projection in PROJECTIONS}
    assert every_row(database) == before
    problem(rest("POST", "/projections/rebuild?name=nothing"), 404, "not-found")


@pytest.mark.nightly  # test_rest_reading, with a mutant
def test_each_position_reads_as_it_did_when_it_was_the_newest(rest: Rest) -> None:
    environment = "/tenants/acme/instances/retail/environments/prod"
    paths = ("/clusters", "/trees", "/tenants", f"{environment}/streams", f"{environment}/applications")
    paths += ("/tenants/acme/grants",)
    seen: dict[int, list[Any]] = {}

    def look(suffix: str = "") -> list[Any]:
        answers = [rest("GET", path + suffix) for path in paths]
        return [answer.json() if answer.status_code == 200 else answer.status_code for answer in answers]

    original = rest.client.request

    def watched(method: str, *arguments: Any, **options: Any) -> Any:
        answer = original(method, *arguments, **options)
        if method != "GET":
            seen[rest.head()] = look()
        return answer

    rest.client.request = watched  # type: ignore[method-assign]
    live_through_everything(rest)
    assert len(seen) > 10
    for position, then in seen.items():
        assert look(f"?at={position}") == then
