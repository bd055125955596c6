"""Refusals of an adoption, and carrying one out in batches, without a cluster: what needs none."""

from __future__ import annotations

import pytest

from backend import deciders
from backend.dispatch import Directed, Dispatcher
from backend.domain.clusters.adoption import AdoptedTopic, BeginAdoption
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.clusters import adoptions
from backend.queries.tenants.streams import list_streams
from tests.support.api.rest import problem
from tests.support.api.streams import PROD
from tests.support.database.sample_events import METADATA, TIME
from workers.topics.adoption import TOPICS_AT_ONCE, Adopter

SETTINGS = {
    "partitions": 2,
    "replication_factor": 1,
    "min_insync_replicas": 1,
    "retention_ms": -1,
    "cleanup_policy": "compact",
    "max_message_bytes": 5000,
    "config": {},
}


def topic(stream, tenant="acme", instance="retail", environment="prod", **changes):
    place = {"tenant": tenant, "instance": instance, "environment": environment, "stream": stream}
    return AdoptedTopic(topic="-".join(place.values()), topic_id="t", **place, **{**SETTINGS, **changes})


@pytest.fixture
def dispatcher(database):
    return Dispatcher(database.engine, domain_registry(), PROJECTIONS)


def begin(dispatcher, *topics):
    command = BeginAdoption(cluster="c1", topics=topics)
    (outcome,) = dispatcher.execute_many(
        [Directed(deciders.ADOPTION, "adoption-c1", command, METADATA)], time=TIME
    )
    return outcome.events[0].position


def carry_out(database, dispatcher):
    adopter, rounds = Adopter(database.engine, dispatcher), 0
    while adopter.work():
        rounds += 1
    return rounds


def operation(database, position):
    with database.engine.connect() as connection:
        return adoptions.operation(connection, position)


def test_a_cluster_that_nobody_knows_has_no_plan(rest):
    problem(rest("GET", "/clusters/nowhere/adoption"), 404, "not-found")


def test_a_cluster_that_does_not_answer_cannot_be_adopted(clusters):
    problem(clusters("GET", "/clusters/c1/adoption"), 422, "cluster-unreachable")
    problem(clusters("POST", "/clusters/c1/adoption", {"digest": "x"}), 422, "cluster-unreachable")


@pytest.mark.parametrize(
    ("named", "slug"),
    [
        ("orders", "value-invalid"),
        ("a/b/c=t", "value-invalid"),
        ("a/b/c/d=", "value-invalid"),
        ("A/b/c/d=t", "name-invalid"),
        ("a/b/c/%2E%2E=t", "name-invalid"),
    ],
)
def test_what_a_topic_stands_for_is_given_as_stream_and_topic(clusters, named, slug):
    found = problem(clusters("GET", f"/clusters/c1/adoption?as={named}"), 422, slug)
    assert found["errors"][0]["pointer"] == "/as/0"


@pytest.mark.parametrize("body", [{}, {"digest": 1}, {"digest": "x", "topics": "t"}, {"digest": "x", "more": 1}])
def test_a_body_that_is_not_an_adoption_is_refused(rest, body):
    problem(rest("POST", "/clusters/c1/adoption", body), 422, "invalid")


def test_streams_are_declared_in_batches_with_all_that_they_need(tenant, database, dispatcher):
    topics = [topic(f"s{n}", environment=f"e{n % 3}") for n in range(TOPICS_AT_ONCE + 5)]
    position = begin(dispatcher, *topics, topic("s", tenant="globex", instance="eu", environment="dev"))
    assert operation(database, position)["state"] == "running"
    assert carry_out(database, dispatcher) == 3  # two batches and the end
    with database.engine.connect() as connection:
        rows = list_streams(connection)
    assert {row.stream for row in rows} == {"globex/eu/dev/s"} | {f"acme/retail/e{n % 3}/s{n}" for n in range(205)}
    assert {(row.partitions, row.cleanup_policy, row.max_message_bytes) for row in rows} == {(2, "compact", 5000)}


def test_a_stream_that_is_there_only_grows(tenant, database, dispatcher):
    streams = f"{PROD}/streams"
    assert tenant("POST", streams, {"name": "small", "partitions": 1}).status_code == 201
    assert tenant("POST", streams, {"name": "large", "partitions": 7}).status_code == 201
    begin(dispatcher, topic("small"), topic("large"))
    carry_out(database, dispatcher)
    found = {row["name"]: row for row in tenant("GET", streams).json()["items"]}
    assert (found["small"]["partitions"], found["large"]["partitions"]) == (2, 7)
    assert found["small"]["max_message_bytes"] == 1_048_588
    assert found["small"]["retention_ms"] == 604_800_000


def test_a_name_that_was_taken_meanwhile_is_refused_and_the_others_go_on(tenant, database, dispatcher):
    streams = f"{PROD}/streams"
    assert tenant("POST", streams, {"name": "a.b"}).status_code == 201
    position = begin(dispatcher, topic("a_b"), topic("orders"))
    carry_out(database, dispatcher)
    assert {row["name"] for row in tenant("GET", streams).json()["items"]} == {"a.b", "orders"}
    found = tenant("GET", f"/operations/adoption-{position}").json()
    # c1 is a leaf, and nobody has recorded the topic there yet.
    assert (found["state"], found["result"]) == ("running", None)
    with database.engine.connect() as connection:
        assert adoptions.list_open(connection) == []


def test_an_operation_of_nothing_is_unknown(rest):
    assert rest("GET", "/operations/adoption-1").status_code == 404
