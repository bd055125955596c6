"""Streams that are deleted, and changes by which Kafka would remove their records."""

from __future__ import annotations

from dataclasses import replace

from backend.domain.tenants.stream_records import RecordApplied, RecordRemoved
from backend.queries.tenants.streams import list_deleted
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest, problem
from tests.support.api.streams import ORDERS, PROD, applied, worker_records


def test_what_takes_records_away_is_confirmed_while_nobody_can_see_whether_there_are_any(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    assert tenant("PATCH", f"{PROD}/streams/orders", {"retention_ms": 9_000_000}).status_code == 200
    worker_records(tenant, applied("c1"))
    path = f"{PROD}/streams/orders"
    for body, removed in (
        ({"retention_ms": 1}, "older than 1 ms"),
        ({"cleanup_policy": "compact"}, "a later one with the same key"),
        ({"cleanup_policy": "compact,delete", "retention_ms": 5}, "the same key and records older than 5 ms"),
    ):
        refused = problem(tenant("PATCH", path, body), 409, "state-conflict")
        assert "or may have, records on c1" in refused["detail"]
        assert removed in refused["detail"]
        problem(tenant("PATCH", f"{path}?dry_run=true", body), 409, "state-conflict")
    assert tenant("PATCH", path, {"retention_ms": 9_000_001, "partitions": 2}).status_code == 200
    problem(tenant("PATCH", f"{path}?confirm=orders", {"retention_ms": 1}), 409, "state-conflict")
    confirmed = tenant("PATCH", f"{path}?confirm=acme/retail/prod/orders", {"retention_ms": 1})
    assert (confirmed.status_code, confirmed.json()["retention_ms"]) == (200, 1)


def test_a_change_that_is_repeated_has_its_first_answer_though_the_stream_is_gone(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    sent = ("PATCH", f"{PROD}/streams/orders", {"retention_ms": 1})
    first = tenant(*sent, **{"Idempotency-Key": "k"})
    assert tenant("DELETE", f"{PROD}/streams/orders").status_code == 204
    again = tenant(*sent, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()) == (first.status_code, first.json()) == (200, again.json())
    problem(tenant(*sent), 404, "not-found")


def test_a_member_changes_streams_but_takes_no_records_away(tenant: Rest) -> None:
    path, confirmed = f"{PROD}/streams/orders", "?confirm=acme/retail/prod/orders"
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    member, owner = (new_user(tenant, kind, acme=kind) for kind in ("member", "owner"))
    assert member("PATCH", path, {"retention_ms": 9_000_000}).status_code == 200, "there is no topic yet"
    worker_records(tenant, applied("c1"))
    for asked in (path, path + confirmed):
        problem(member("PATCH", asked, {"retention_ms": 1}), 403, "not-allowed")
    assert member("PATCH", path, {"partitions": 3, "retention_ms": -1}).status_code == 200
    problem(owner("PATCH", path, {"retention_ms": 1}), 409, "state-conflict")
    assert owner("PATCH", path + confirmed, {"retention_ms": 1}).status_code == 200


def test_an_empty_stream_is_deleted_and_can_be_declared_again_once_its_topics_are_gone(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    assert tenant("DELETE", f"{PROD}/streams/orders").status_code == 204
    problem(tenant("GET", f"{PROD}/streams/orders"), 404, "not-found")
    assert tenant("POST", f"{PROD}/streams", {"name": "orders"}).status_code == 201
    worker_records(tenant, applied("c1"))
    confirmed = tenant("DELETE", f"{PROD}/streams/orders?confirm=acme/retail/prod/orders")
    assert confirmed.status_code == 204
    with tenant.client.app.state.services.reading() as connection:
        [left] = list_deleted(connection)
    assert (left.cluster, left.technical_name, left.topic_id) == ("c1", "acme-retail-prod-orders", "T")
    assert "c1" in problem(tenant("POST", f"{PROD}/streams", {"name": "orders"}), 409, "state-conflict")["detail"]
    worker_records(tenant, RecordRemoved(**ORDERS, cluster="c1"))
    assert tenant("POST", f"{PROD}/streams", {"name": "orders"}).status_code == 201
    worker_records(tenant, applied("c1", "T2"))
    assert tenant("GET", f"{PROD}/streams/orders").json()["incarnations"] == {"c1": 2}


def test_a_name_is_not_free_while_a_deleted_streams_topic_has_it(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "a.b"})
    command = RecordApplied(
        instance="retail", environment="prod", stream="a.b", cluster="c1", topic_id="T", replication_factor=1
    )
    worker_records(tenant, command)
    tenant("DELETE", f"{PROD}/streams/a.b?confirm=acme/retail/prod/a.b")
    problem(tenant("POST", f"{PROD}/streams", {"name": "a_b"}), 409, "technical-name-taken")
    several = {"streams": [{"name": "c"}, {"name": "a_b"}]}
    problem(tenant("POST", f"{PROD}/streams:declare", several), 409, "technical-name-taken")


def test_a_stream_is_not_deleted_while_nobody_can_see_whether_it_has_records(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    worker_records(tenant, applied("c1"))
    refused = problem(tenant("DELETE", f"{PROD}/streams/orders"), 409, "state-conflict")
    assert "c1" in refused["detail"]
    assert "?confirm=acme/retail/prod/orders" in refused["detail"]
    problem(tenant("DELETE", f"{PROD}/streams/orders?confirm=orders"), 409, "state-conflict")
    assert tenant("GET", f"{PROD}/streams/orders").status_code == 200


def test_a_topic_on_a_cluster_that_left_the_tree_is_asked_for_records_too(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    worker_records(tenant, applied("c3"))
    smaller = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    assert tenant("PUT", "/trees/main", smaller).status_code == 200
    refused = problem(tenant("DELETE", f"{PROD}/streams/orders"), 409, "state-conflict")
    assert "or may have, records on c3" in refused["detail"]
    assert tenant("DELETE", f"{PROD}/streams/orders?confirm=acme/retail/prod/orders").status_code == 204
    with tenant.client.app.state.services.reading() as connection:
        assert [row.cluster for row in list_deleted(connection)] == ["c3"]


def test_a_topic_that_was_there_before_is_not_removed_with_a_stream_that_is_gone_already(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    assert tenant("DELETE", f"{PROD}/streams/orders").status_code == 204
    worker_records(tenant, applied("c1"))
    with tenant.client.app.state.services.reading() as connection:
        assert list_deleted(connection) == []
    worker_records(tenant, replace(applied("c1"), made=True))
    with tenant.client.app.state.services.reading() as connection:
        assert [row.cluster for row in list_deleted(connection)] == ["c1"]
