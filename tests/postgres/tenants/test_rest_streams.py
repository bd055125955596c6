"""Tenants, instances, environments and streams as outsiders rely on them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.tenants.stream_records import RecordApplyFailed
from backend.queries.replication.replication import store_health
from tests.support.api.rest import NOBODY_LISTENS, Rest, problem
from tests.support.api.streams import ORDERS, PROD, applied, worker_records
from tests.support.database.postgres import Database


def test_each_thing_is_created_found_and_listed(settled: Rest) -> None:
    for path, body in (
        ("/tenants/acme", {"name": "acme"}),
        ("/tenants/acme/instances/retail", {"name": "retail", "tree": "main"}),
        (PROD, {"name": "prod", "margin_seconds": 60, "offset_mode": "margin", "record_name_subjects": True}),
    ):
        found = settled("GET", path)
        assert found.json() | body == found.json()
        assert found.headers["etag"]
        collection = path.rpartition("/")[0]
        assert settled("GET", collection).json()["items"] == [found.json()]
        again = settled("POST", collection, body)
        problem(again, 409, "already-exists")


def test_many_streams_are_declared_at_once(tenant: Rest) -> None:
    wanted = [{"name": name, "partitions": 2} for name in ("b", "a")]
    dry = tenant("POST", f"{PROD}/streams:declare?dry_run=true", {"streams": wanted})
    assert (dry.status_code, tenant("GET", f"{PROD}/streams").json()["items"]) == (201, [])
    answer = tenant("POST", f"{PROD}/streams:declare", {"streams": wanted}, **{"Idempotency-Key": "k"})
    assert answer.status_code == 201
    assert answer.json()["items"] == tenant("GET", f"{PROD}/streams").json()["items"]
    assert [row["name"] for row in answer.json()["items"]] == ["a", "b"]
    again = tenant("POST", f"{PROD}/streams:declare", {"streams": wanted}, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()) == (201, answer.json())


@pytest.mark.parametrize(
    ("streams", "status", "slug", "pointer"),
    [
        ([{"name": "c"}, {"name": "a"}], 409, "already-exists", "/streams/1/name"),
        ([{"name": "c"}, {"name": "c"}], 422, "value-invalid", "/streams/1/name"),
        ([{"name": "c"}, {"name": "d", "partitions": 0}], 422, "value-invalid", "/streams/1/partitions"),
        ([{"name": "c"}, {"name": "D!"}], 422, "name-invalid", "/streams/1"),
        ([], 422, None, "/streams"),
        ([{"name": f"s{n}"} for n in range(201)], 422, None, "/streams"),
        ([{"name": "c", "partitionss": 1}], 422, None, "/streams/0/partitionss"),
    ],
)
def test_of_many_streams_all_are_declared_or_none(
    tenant: Rest, streams: list[dict[str, Any]], status: int, slug: str | None, pointer: str
) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "a"})
    found = tenant("POST", f"{PROD}/streams:declare", {"streams": streams})
    assert found.status_code == status
    if slug is not None:
        problem(found, status, slug)
    assert found.json()["errors"][0]["pointer"].startswith(pointer)
    assert [row["name"] for row in tenant("GET", f"{PROD}/streams").json()["items"]] == ["a"]


def test_a_stream_is_declared_with_its_technical_names(tenant: Rest) -> None:
    body = {
        "name": "orders",
        "partitions": 4,
        "replication_factor": 1,
        "min_insync_replicas": 1,
        "distributed": True,
        "config": {},
    }
    answer = tenant("POST", f"{PROD}/streams", body)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1{PROD}/streams/orders"
    found = answer.json()
    assert found | body == found
    assert (found["retention_ms"], found["cleanup_policy"]) == (604_800_000, "delete")
    assert found["technical_names"] == dict.fromkeys(("c1", "c2", "c3"), "acme-retail-prod-orders")
    assert found["applied"] == dict.fromkeys(("c1", "c2", "c3"), "pending")
    assert found["under_provisioned"] == []
    read = tenant("GET", f"{PROD}/streams/orders")
    unseen = dict.fromkeys(
        ("present", "moving", "min_insync_replicas", "unclean_election", "age_seconds", "advice")
    )
    replication = {cluster: {"declared": 1, **unseen} for cluster in ("c1", "c2", "c3")}
    assert read.json() == {**found, "replication": replication, "drift": []}
    assert read.headers["etag"] == answer.headers["etag"]
    past = tenant("GET", f"{PROD}/streams/orders?at={tenant.head()}").json()
    assert past == {**found, "replication": None, "drift": None}
    assert tenant("GET", f"{PROD}/streams").json() == {"items": [found], "next_cursor": None}


def test_what_workers_record_shows(tenant: Rest) -> None:
    declared = tenant("POST", f"{PROD}/streams", {"name": "orders", "replication_factor": 3})
    worker_records(tenant, RecordOnline(kafka_cluster_id="K1", brokers=1), CLUSTER, "cluster-c1")
    worker_records(tenant, applied("c1"))
    worker_records(tenant, RecordApplyFailed(**ORDERS, cluster="c2", reason="policy"))
    read = tenant("GET", f"{PROD}/streams/orders")
    assert read.json()["applied"] == {"c1": "applied", "c2": "failed", "c3": "pending"}
    assert read.json()["failures"] == {"c2": "policy"}
    assert read.json()["under_provisioned"] == ["c1"]
    # What workers find out does not make an editor's copy stale.
    assert read.headers["etag"] == declared.headers["etag"]
    changed = tenant("PATCH", f"{PROD}/streams/orders", {"partitions": 8}, If_Match=read.headers["etag"])
    assert changed.json()["applied"] == dict.fromkeys(("c1", "c2", "c3"), "pending")
    assert changed.headers["etag"] != read.headers["etag"]


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "a/b", "..", "__x", "_treeline.verify", "x" * 250, "é", "\ud800", "a\x00"]
)
def test_names_that_no_kafka_accepts_are_refused_everywhere(settled: Rest, name: str) -> None:
    head = settled.head()
    for path in (
        "/tenants",
        "/tenants/acme/instances",
        "/tenants/acme/instances/retail/environments",
        f"{PROD}/streams",
    ):
        answer = settled("POST", path, {"name": name})
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == "/name"
    assert settled.head() == head


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("partitions", [0, -1, 10_001, "4", True, 4.0, None, 10**30]),
        ("replication_factor", [0, 32_768, "1", False]),
        ("min_insync_replicas", [0, 32_768, "1", "2"]),
        ("retention_ms", [-2, "x", 2**63, 1.5]),
        ("cleanup_policy", ["", "keep", 1, "delete,compact"]),
        ("distributed", ["true", 1, 0]),
    ],
)
def test_settings_out_of_range_or_of_another_type_are_refused_at_their_place(
    settled: Rest, field: str, values: list[Any]
) -> None:
    head = settled.head()
    for value in values:
        answer = settled("POST", f"{PROD}/streams", {"name": "orders", field: value})
        assert answer.status_code == 422, (field, value, answer.text)
        assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{field}"]
    assert settled.head() == head


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tenants/acme/instances", {"name": "x", "tree": "other"}),
        ("/tenants/acme/instances/retail/environments", {"name": "x", "margin_seconds": -1}),
        ("/tenants/acme/instances/retail/environments", {"name": "x", "margin_seconds": "60"}),
        ("/tenants/acme/instances/retail/environments", {"name": "x", "offset_mode": "guess"}),
        ("/tenants/acme/instances/retail/environments", {"name": "x", "record_name_subjects": "maybe"}),
    ],
)
def test_bad_instances_and_environments_are_refused(settled: Rest, path: str, body: dict[str, Any]) -> None:
    assert settled("POST", path, body).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/tenants/none",
        "/tenants/none/instances",
        "/tenants/acme/instances/none",
        "/tenants/acme/instances/none/environments",
        "/tenants/acme/instances/retail/environments/none",
        "/tenants/acme/instances/retail/environments/none/streams",
        f"{PROD}/streams/none",
        f"{PROD}/streams/%00",
    ],
)
def test_what_does_not_exist_is_404(settled: Rest, path: str) -> None:
    problem(settled("GET", path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tenants/none/instances", {"name": "x"}),
        ("POST", "/tenants/acme/instances/none/environments", {"name": "x"}),
        ("POST", "/tenants/acme/instances/retail/environments/none/streams", {"name": "x"}),
        ("PATCH", "/tenants/acme/instances/retail/environments/none", {}),
        ("PATCH", f"{PROD}/streams/none", {}),
        ("DELETE", f"{PROD}/streams/none", None),
    ],
)
def test_writing_below_what_does_not_exist_is_404(settled: Rest, method: str, path: str, body: Any) -> None:
    problem(settled(method, path, body), 404, "not-found")


@pytest.mark.parametrize(
    ("config", "pointer", "said"),
    [
        ({"retention.ms": 5}, "/config/retention.ms", "retention_ms"),
        ({"segment.bytes": "much"}, "/config/segment.bytes", "whole number"),
        ({"x/y": "1"}, "/config/x~1y", "no topic setting"),
        ({"compression.type": None}, "/config/compression.type", ""),
        ({"compression.type": ["zstd"]}, "/config/compression.type", ""),
        ("compression.type=zstd", "/config", ""),
    ],
)
def test_topic_settings_that_cannot_be_declared_are_refused_at_their_place(
    tenant: Rest, config: Any, pointer: str, said: str
) -> None:
    answer = tenant("POST", f"{PROD}/streams", {"name": "orders", "config": config})
    found = problem(answer, 422, "value-invalid" if said else "invalid")
    assert found["errors"][0]["pointer"] == pointer
    assert said in found["errors"][0]["detail"]


def test_topic_settings_are_declared_changed_and_seen_as_of_then(tenant: Rest) -> None:
    streams = f"{PROD}/streams"
    config = {"compression.type": "zstd", "segment.bytes": 2097152, "preallocate": True}
    made = tenant("POST", streams, {"name": "orders", "config": config})
    assert made.status_code == 201
    then = made.json()
    assert then["config"] == {"compression.type": "zstd", "preallocate": "true", "segment.bytes": "2097152"}
    assert tenant("PATCH", f"{streams}/orders", {"partitions": 2}).json()["config"] == then["config"]
    same = tenant("PATCH", f"{streams}/orders", {"config": {**config, "preallocate": "TRUE"}})
    assert same.json()["position"] == then["position"] + 1  # of the partitions
    changed = tenant("PATCH", f"{streams}/orders", {"config": {"compression.type": "lz4"}}).json()
    assert changed["config"] == {"compression.type": "lz4"}
    assert tenant("GET", f"{streams}/orders?at={then['position']}").json()["config"] == then["config"]
    worker_records(tenant, applied("c1"))  # which does not answer: nobody can tell whether there are records
    refused = tenant("PATCH", f"{streams}/orders", {"config": {"retention.bytes": 1000}})
    problem(refused, 409, "state-conflict")
    assert "beyond 1,000 bytes" in refused.json()["detail"]


def test_two_streams_never_share_a_technical_name(tenant: Rest) -> None:
    assert tenant("POST", f"{PROD}/streams", {"name": "a.b"}).status_code == 201
    tenant("POST", "/tenants/acme/instances/retail/environments", {"name": "prod-x"})
    elsewhere = "/tenants/acme/instances/retail/environments/prod-x/streams"
    assert tenant("POST", elsewhere, {"name": "y"}).status_code == 201
    head = tenant.head()
    for name, other in (("a_b", "acme/retail/prod/a.b"), ("x-y", "acme/retail/prod-x/y")):
        document = problem(tenant("POST", f"{PROD}/streams", {"name": name}), 409, "technical-name-taken")
        assert other in document["detail"]
        assert f"acme/retail/prod/{name}" in document["detail"]
    assert tenant.head() == head


def test_of_two_at_once_whose_names_meet_one_is_refused(tenant: Rest) -> None:
    def declare(name: str) -> int:
        return tenant("POST", f"{PROD}/streams", {"name": name}).status_code

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(declare, ["a.b", "a_b"])) == [201, 409]


def test_a_stream_is_changed_and_its_partitions_only_grow(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders", "partitions": 4})
    changed = tenant("PATCH", f"{PROD}/streams/orders", {"partitions": 6, "retention_ms": -1})
    assert (changed.status_code, changed.json()["partitions"], changed.json()["retention_ms"]) == (200, 6, -1)
    head = tenant.head()
    for body in (
        {"partitions": 5},
        {"replication_factor": 0},
        {"replication_factor": 1, "min_insync_replicas": 2},
        {"cleanup_policy": "x"},
        {"name": "other"},
        {"partitions": "8"},
    ):
        assert tenant("PATCH", f"{PROD}/streams/orders", body).status_code == 422
    assert tenant("PATCH", f"{PROD}/streams/orders", {"partitions": 6}).status_code == 200
    assert tenant.head() == head


def test_the_factor_is_declared_anew_and_topics_stay_as_they_are(tenant: Rest, database: Database) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders", "partitions": 4})
    worker_records(tenant, RecordOnline(kafka_cluster_id="K1", brokers=3), CLUSTER, "cluster-c1")
    worker_records(tenant, applied("c1"))
    body = {"replication_factor": 3, "min_insync_replicas": 2}
    changed = tenant("PATCH", f"{PROD}/streams/orders", body)
    assert changed.status_code == 200 and changed.json() | body == changed.json()
    assert changed.json()["applied"]["c1"] == "pending"
    orders = {"fewest": 1, "most": 1, "moving": False, "min_insync_replicas": 1, "unclean_election": False}
    with database.engine.begin() as connection:
        store_health(connection, "K1", {"declared_topics": {"acme-retail-prod-orders": orders}})
    read = tenant("GET", f"{PROD}/streams/orders").json()["replication"]
    assert read["c1"].pop("age_seconds") >= 0
    assert read["c1"] == {
        "declared": 3,
        "present": 1,
        "moving": False,
        "min_insync_replicas": 1,
        "unclean_election": False,
        "advice": "acks=all: a record is on one broker; while it is offline nothing can be written or read; "
        "unclean leader election is off",
    }
    assert read["c2"]["present"] is None
    events = tenant("GET", "/events?stream=tenant-acme").json()["items"]
    assert events[-1]["name"] == "StreamChanged" and events[-1]["data"]["replication_factor"] == 3


def test_an_environment_is_changed(tenant: Rest) -> None:
    tag = tenant("GET", PROD).headers["etag"]
    changed = tenant("PATCH", PROD, {"offset_mode": "exact"}, If_Match=tag)
    assert changed.json()["offset_mode"] == "exact"
    problem(tenant("PATCH", PROD, {"offset_mode": "margin"}, If_Match=tag), 412, "stale-version")


def test_dry_runs_append_nothing(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    head = tenant.head()
    for method, path, body, status in (
        ("POST", "/tenants", {"name": "t2"}, 201),
        ("POST", "/tenants/acme/instances", {"name": "i2"}, 201),
        ("POST", "/tenants/acme/instances/retail/environments", {"name": "e2"}, 201),
        ("PATCH", PROD, {"margin_seconds": 5}, 200),
        ("POST", f"{PROD}/streams", {"name": "s2"}, 201),
        ("POST", f"{PROD}/streams", {"name": "orders"}, 409),
        ("PATCH", f"{PROD}/streams/orders", {"partitions": 9}, 200),
        ("DELETE", f"{PROD}/streams/orders", None, 204),
    ):
        assert tenant(method, f"{path}?dry_run=true", body).status_code == status, path
    assert tenant.head() == head


def test_earlier_positions_show_tenants_and_streams_of_then(tenant: Rest) -> None:
    before = tenant.head()
    tenant("POST", f"{PROD}/streams", {"name": "orders", "partitions": 4})
    declared = tenant.head()
    worker_records(tenant, applied("c1"))
    tenant("PATCH", f"{PROD}/streams/orders", {"partitions": 8})
    tenant("DELETE", f"{PROD}/streams/orders?confirm=acme/retail/prod/orders")

    def at(position: int) -> dict[str, Any]:
        found: dict[str, Any] = tenant("GET", f"{PROD}/streams/orders?at={position}").json()
        return found

    problem(tenant("GET", f"{PROD}/streams/orders?at={before}"), 404, "not-found")
    assert (at(declared)["partitions"], at(declared)["applied"]["c1"]) == (4, "pending")
    assert (at(declared + 1)["partitions"], at(declared + 1)["applied"]["c1"]) == (4, "applied")
    assert (at(declared + 2)["partitions"], at(declared + 2)["applied"]["c1"]) == (8, "pending")
    assert tenant("GET", f"{PROD}/streams?at={before}").json()["items"] == []
    for path in ("/tenants", "/tenants/acme/instances", PROD):
        assert tenant("GET", f"{path}?at={before}").status_code == 200
    problem(tenant("GET", "/tenants/acme?at=1"), 404, "not-found")
    assert tenant("GET", "/tenants?at=1").json()["items"] == []


def test_streams_are_paged_by_name(tenant: Rest) -> None:
    for name in ("b", "a", "d", "c"):
        tenant("POST", f"{PROD}/streams", {"name": name})
    first = tenant("GET", f"{PROD}/streams?limit=3").json()
    rest_of_it = tenant("GET", f"{PROD}/streams?limit=3&cursor={first['next_cursor']}").json()
    assert [row["name"] for row in first["items"] + rest_of_it["items"]] == ["a", "b", "c", "d"]
    assert rest_of_it["next_cursor"] is None


def test_a_cluster_that_joins_later_gets_the_streams(tenant: Rest) -> None:
    tenant("POST", f"{PROD}/streams", {"name": "orders"})
    tenant.add_clusters("c4", topic_format="{tenant}.{topic}")
    root = tenant("GET", "/trees/main").json()["root"]
    tenant("PUT", "/trees/main", {"level": 3, "children": [root, {"cluster": "c4"}]})
    found = tenant("GET", f"{PROD}/streams/orders").json()
    assert found["technical_names"]["c4"] == "acme.orders"
    assert found["applied"]["c4"] == "pending"
    assert NOBODY_LISTENS not in tenant("GET", f"{PROD}/streams").text
