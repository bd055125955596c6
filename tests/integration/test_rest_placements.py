"""Placements over REST, with a worker's part recorded by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend import deciders
from backend.domain.cluster import RecordOnline
from backend.domain.placements import RecordFailure, RecordPlan
from backend.queries.placements import PlanDocuments, keep_documents, read_reassignment
from tests.database_fixture import Database
from tests.integration.conftest import TOKEN, Rest, problem
from tests.integration.shell import shell_of
from tests.integration.streams import PROD, applied, worker_records


def partition(number: int, *replicas: int) -> dict[str, Any]:
    return {"topic": "t", "partition": number, "replicas": list(replicas)}


QUESTION = {"brokers": [{"id": 1}, {"id": 2}], "partitions": [partition(0, 1), partition(1, 1)]}
PLAN = {"moves": 1, "digest": "1f", "violations": [], "partitions": [partition(0, 1), partition(1, 2)]}


@pytest.fixture
def clusters(rest: Rest) -> Rest:
    rest.add_clusters("c1", "c2")
    return rest


def asked(rest: Rest, **more: Any) -> dict[str, Any]:
    answer = rest("POST", "/placements", {"cluster": "c1", **more})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/api/v1/placements/{found['id']}"
    return found


def test_a_plan_is_asked_for_looked_at_and_taken_to_kafkas_own_tool(clusters: Rest, database: Database) -> None:
    begun = asked(clusters, target_brokers=[1, 2], replication_factor={"t": 1}, no_leaders=[2])
    assert (begun["state"], begun["target_brokers"], begun["replication_factor"]) == (
        "requested",
        [1, 2],
        {"t": 1},
    )
    path = f"/placements/{begun['id']}"
    assert clusters("GET", path).json() == {**begun, "plan": None, "now": None}
    problem(clusters("GET", f"{path}/reassignment"), 404, "not-found")
    head = clusters.head()
    with database.engine.begin() as connection:
        keep_documents(connection, begun["id"], PlanDocuments(question=QUESTION, plan=PLAN))
    planned = RecordPlan(digest="1f", summary={"moves": 1})
    worker_records(clusters, planned, deciders.PLACEMENT, f"placement-{begun['id']}")
    now = clusters("GET", path).json()
    assert (now["state"], now["digest"], now["summary"]) == ("planned", "1f", {"moves": 1})
    assert now["plan"] == {"moves": 1, "digest": "1f", "violations": []}
    assert clusters("GET", f"{path}?at={head}").json()["state"] == "requested"
    moved = clusters("GET", f"{path}/reassignment").json()
    assert moved == {"version": 1, "partitions": [partition(1, 2)]}
    back = clusters("GET", f"{path}/reassignment?which=present").json()
    assert back == {"version": 1, "partitions": [partition(1, 1)]}


def test_factors_that_streams_declare_are_named_in_the_answer(tenant: Rest) -> None:
    refused = problem(
        tenant("POST", "/placements", {"cluster": "c1", "replication_factor": "declared"}), 422, "value-invalid"
    )
    assert refused["errors"] == [
        {"pointer": "/replication_factor", "detail": "no stream has a topic on c1 that is to be as declared"}
    ]
    for name, factor in (("orders", 3), ("payments", 2), ("elsewhere", 3)):
        tenant("POST", f"{PROD}/streams", {"name": name, "replication_factor": factor})
    worker_records(tenant, RecordOnline(kafka_cluster_id="K1", brokers=2), deciders.CLUSTER, "cluster-c1")
    for name, cluster in (("orders", "c1"), ("payments", "c1"), ("elsewhere", "c2")):
        worker_records(tenant, replace(applied(cluster, name), stream=name))
    begun = asked(tenant, replication_factor="declared")
    factors = {"acme-retail-prod-orders": 2, "acme-retail-prod-payments": 2}
    assert (begun["replication_factor"], begun["as_declared"]) == (factors, True)
    # What was resolved stays what it was.
    tenant("PATCH", f"{PROD}/streams/orders", {"replication_factor": 1})
    assert tenant("GET", f"/placements/{begun['id']}").json()["replication_factor"] == factors
    again = asked(tenant, replication_factor="declared", excluded_topics=["acme-retail-prod-payments"])
    assert again["replication_factor"] == {"acme-retail-prod-orders": 1}
    assert asked(tenant)["as_declared"] is False


def test_the_command_takes_a_factor_or_what_is_declared(tenant: Rest, database: Database, tmp_path: Path) -> None:
    plan = ("placement", "plan", "--cluster", "c1", "--replication-factor")
    with shell_of(database.url, tmp_path) as shell:
        for factor, told in (("declared", "no stream has a topic on c1"), ("three", "'three' is no number")):
            refused = shell(*plan, factor)
            assert refused.exit_code == 2 and told in refused.stderr, refused.stderr


def test_the_newest_comes_first_page_by_page_and_of_one_cluster(clusters: Rest) -> None:
    first, second = asked(clusters), asked(clusters, cluster="c2")
    failed = RecordFailure(reason="nobody answers")
    worker_records(clusters, failed, deciders.PLACEMENT, f"placement-{first['id']}")
    page = clusters("GET", "/placements?limit=1").json()
    assert [row["id"] for row in page["items"]] == [second["id"]]
    rest_of_them = clusters("GET", f"/placements?limit=1&cursor={page['next_cursor']}").json()
    (row,) = rest_of_them["items"]
    assert (row["id"], row["state"], row["reason"]) == (first["id"], "failed", "nobody answers")
    (row,) = clusters("GET", "/placements?cluster=c1").json()["items"]
    assert row["id"] == first["id"]


def test_a_repeat_asks_once_and_a_rehearsal_never(clusters: Rest) -> None:
    head = clusters.head()
    rehearsed = clusters("POST", "/placements?dry_run=true", {"cluster": "c1"})
    assert rehearsed.status_code == 202 and clusters.head() == head
    answers = [clusters("POST", "/placements", {"cluster": "c1"}, Idempotency_Key="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json() and clusters.head() == head + 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"cluster": "c9"}, "/cluster"),
        ({"cluster": "c1", "target_brokers": []}, "/target_brokers"),
        ({"cluster": "c1", "target_brokers": [-3]}, "/target_brokers/0"),
        ({"cluster": "c1", "replication_factor": 0}, "/replication_factor"),
        ({"cluster": "c9", "replication_factor": "declared"}, "/cluster"),
        ({"cluster": "c1", "replication_factor": {"t": 0}}, "/replication_factor/t"),
    ],
)
def test_what_cannot_be_meant_is_refused(clusters: Rest, body: dict[str, Any], pointer: str) -> None:
    head = clusters.head()
    refused = problem(clusters("POST", "/placements", body), 422, "value-invalid")
    assert [each["pointer"] for each in refused["errors"]] == [pointer] and clusters.head() == head


GIVEN = {"version": 1, "partitions": [partition(0, 2), partition(1, 1)]}


def test_a_reassignment_is_handed_in_and_kept(clusters: Rest, database: Database) -> None:
    begun = asked(clusters, reassignment=GIVEN)
    assert (begun["state"], begun["given"], begun["target_brokers"]) == ("requested", 2, None)
    assert "reassignment" not in begun, "it may be large"
    with database.engine.connect() as connection:
        assert read_reassignment(connection, begun["id"]) == GIVEN
    (event,) = (each for each in clusters("GET", "/events").json()["items"] if each["name"] == "PlacementGiven")
    assert event["data"]["partitions"] == 2 and len(event["data"]["digest"]) == 32
    head = clusters.head()
    rehearsed = clusters("POST", "/placements?dry_run=true", {"cluster": "c1", "reassignment": GIVEN})
    assert rehearsed.status_code == 202 and clusters.head() == head


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"reassignment": {}}, "/reassignment/partitions"),
        ({"reassignment": {"version": 3, "partitions": []}}, "/reassignment/version"),
        ({"reassignment": {"partitions": [partition(0, 1), partition(0, 2)]}}, "/reassignment/partitions/1"),
        ({"reassignment": {"partitions": [partition(0, 1, 1)]}}, "/reassignment/partitions/0/replicas"),
        ({"reassignment": {"partitions": [partition(0, 1), 5]}}, "/reassignment/partitions/1"),
        ({"reassignment": GIVEN, "target_brokers": [1]}, "/target_brokers"),
        ({"reassignment": {"partitions": [partition(0, 10**400)]}}, "/reassignment/partitions/0/replicas/0"),
        (
            {"reassignment": {"partitions": [{**partition(0, 1), "topic": "a\0"}]}},
            "/reassignment/partitions/0/topic",
        ),
        ({"reassignment": GIVEN, "no_leaders": []}, "/no_leaders"),
    ],
)
def test_what_cannot_be_handed_in_is_refused(clusters: Rest, body: dict[str, Any], pointer: str) -> None:
    head = clusters.head()
    refused = problem(clusters("POST", "/placements", {"cluster": "c1", **body}), 422, "value-invalid")
    assert [each["pointer"] for each in refused["errors"]] == [pointer] and clusters.head() == head


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"cluster": "c1", "reassignment": {"partitions": [], "partitions": []}}', "partitions"),
        ('{"cluster": "c1", "re\\u0061ssignment": {"version": 1, "version": 2}}', "version"),
        ('{"cluster": "c1", "cluster": "c2"}', "cluster"),
    ],
)
def test_of_two_values_of_one_name_none_is_taken(clusters: Rest, body: str, name: str) -> None:
    sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answer = clusters.client.request("POST", "/api/v1/placements", headers=sent, content=body)
    assert f'an object has "{name}" twice' in problem(answer, 422, "value-invalid")["detail"]


def test_a_large_reassignment_is_taken(clusters: Rest) -> None:
    rows = [partition(number, 1, 2, 3) for number in range(30_000)]
    assert asked(clusters, reassignment={"version": 1, "partitions": rows})["given"] == 30_000


def test_nobody_knows_an_unknown_placement(clusters: Rest) -> None:
    for path in ("/placements/p9", "/placements/p9/reassignment"):
        problem(clusters("GET", path), 404, "not-found")
