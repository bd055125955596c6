"""Declared streams get their topics on every cluster, through the real reconcile loop of the estate."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from backend.domain.tenants.tenant_commands import DeleteStream
from backend.estate.home import Home
from backend.estate.processes import load_plan
from backend.eventlog.engine import create_engine
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.api.worker_records import record
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce, read_all, topics

STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"


@pytest.fixture
def rest(estate):
    return RestClient(estate.url, estate.token)


@pytest.fixture
def database(estate):
    """Return the estate's own database."""
    api = next(each for each in load_plan(Home(estate.home).plan).processes if each.name == "api")
    engine = create_engine(api.environment["TREELINE_DATABASE_URL"])
    yield engine
    engine.dispose()


@pytest.fixture
def name():
    return f"s{uuid.uuid4().hex[:8]}"


def declare(rest, name, **fields):
    return rest.ok("POST", STREAMS, {"name": name, "partitions": 2, "replication_factor": 1, **fields})


def applied_everywhere(rest, name):
    row = rest.ok("GET", f"{STREAMS}/{name}")
    return row if set(row["applied"].values()) == {"applied"} else None


def topic_config(servers, topic):
    admin = AdminClient({"bootstrap.servers": servers})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {
        key: entry.value
        for key, entry in admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS).items()
    }


def partitions(servers, topic):
    found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=DEADLINE_SECONDS)
    return len(found.topics[topic].partitions)


def test_a_declared_stream_gets_its_topic_under_each_clusters_technical_name(estate, rest, name):
    declare(rest, name, retention_ms=3_600_000, replication_factor=3)
    row = eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    assert row["technical_names"]["cluster-1"] == f"acme-retail-prod-{name}"
    assert row["technical_names"]["cluster-4"] == f"acme-prod-{name}"
    assert set(row["under_provisioned"]) == set(row["technical_names"])
    for cluster, topic in row["technical_names"].items():
        config = topic_config(estate.bootstrap_servers(cluster), topic)
        assert (config["retention.ms"], config["message.timestamp.type"]) == ("3600000", "CreateTime")


def test_a_change_of_a_stream_reaches_every_cluster(estate, rest, name):
    declare(rest, name, retention_ms=3_600_000)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    rest.ok("PATCH", f"{STREAMS}/{name}", {"retention_ms": 7_200_000, "partitions": 3})
    row = eventually(lambda: applied_everywhere(rest, name), "the change applied on all clusters")
    for cluster, topic in row["technical_names"].items():
        servers = estate.bootstrap_servers(cluster)
        assert topic_config(servers, topic)["retention.ms"] == "7200000"
        assert partitions(servers, topic) == 3


@pytest.mark.nightly  # test_a_stream_that_is_not_distributed waits for a new stream's record everywhere
def test_records_of_a_new_stream_are_distributed_without_a_restart(estate, rest, name):
    row = declare(rest, name)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    names = row["technical_names"]
    produce(estate.bootstrap_servers("cluster-5"), names["cluster-5"], [{"value": b"v", "partition": 1}])
    for cluster, topic in names.items():
        servers = estate.bootstrap_servers(cluster)
        found = eventually(lambda s=servers, t=topic: read_all(s, t), f"the record on {cluster}")
        assert [message.value() for message in found] == [b"v"]


def test_a_stream_that_is_not_distributed_stays_where_it_is_produced(estate, rest, name):
    row = declare(rest, name, distributed=False)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    distributed = declare(rest, f"{name}-d")
    eventually(lambda: applied_everywhere(rest, f"{name}-d"), "applied on all clusters")
    servers = estate.bootstrap_servers
    for stream in (row, distributed):
        produce(servers("cluster-1"), stream["technical_names"]["cluster-1"], [{"value": b"v", "partition": 0}])
    # Both were produced in this order to the same cluster: once the second is everywhere, the first had its time.
    for cluster, topic in distributed["technical_names"].items():
        eventually(lambda c=cluster, t=topic: read_all(servers(c), t), f"the distributed record on {cluster}")
    assert read_all(servers("cluster-4"), row["technical_names"]["cluster-4"]) == []


def test_a_deleted_streams_topics_go(estate, rest, name):
    row = declare(rest, name)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    assert rest("DELETE", f"{STREAMS}/{name}").is_success
    for cluster, topic in row["technical_names"].items():
        servers = estate.bootstrap_servers(cluster)
        eventually(lambda s=servers, t=topic: t not in topics(s), f"the topic gone from {cluster}")


@pytest.mark.nightly  # the same deletion in test_rest_brokers
def test_a_stream_with_data_is_deleted_only_when_confirmed_by_its_name(estate, rest, name):
    row = declare(rest, name)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    produce(estate.bootstrap_servers("cluster-2"), row["technical_names"]["cluster-2"], [{"value": b"v"}])
    assert rest("DELETE", f"{STREAMS}/{name}").status_code == 409
    assert rest("DELETE", f"{STREAMS}/{name}?confirm=acme/retail/prod/other").status_code == 409
    assert rest("DELETE", f"{STREAMS}/{name}?confirm=acme/retail/prod/{name}").is_success


@pytest.mark.nightly  # records of a deleted stream are looked for in test_rest_stream_removal
def test_records_that_come_after_the_look_for_them_are_kept_and_can_be_taken_up_again(
    estate, rest, name, database
):
    row = declare(rest, name)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    servers, topic = estate.bootstrap_servers("cluster-2"), row["technical_names"]["cluster-2"]
    produce(servers, topic, [{"value": b"late", "partition": 1}])
    # The API does this once it has found all topics empty; the record arrived right after that.
    place = {"instance": "retail", "environment": "prod", "stream": name}
    record(database, DeleteStream(**place))

    def told():
        events = rest.ok("GET", f"/events?after={row['position']}&limit=1000")["items"]
        mine = [each for each in events if each["data"].get("stream") == name]
        gone = {each["data"]["cluster"] for each in mine if each["name"] == "StreamRemoved"}
        kept = {each["data"]["cluster"] for each in mine if each["name"] == "StreamTopicKept"}
        return (gone, kept) if len(gone | kept) == 5 else None

    gone, kept = eventually(told, "every topic is removed or kept")
    assert "cluster-2" in kept
    assert [message.value() for message in read_all(servers, topic)] == [b"late"]
    for cluster in gone:
        assert row["technical_names"][cluster] not in topics(estate.bootstrap_servers(cluster))
    declare(rest, name)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    for cluster, its_topic in row["technical_names"].items():
        there = estate.bootstrap_servers(cluster)
        found = eventually(lambda s=there, t=its_topic: read_all(s, t), f"the record on {cluster}")
        assert [message.value() for message in found] == [b"late"]
    assert rest("DELETE", f"{STREAMS}/{name}?confirm=acme/retail/prod/{name}").is_success


def test_a_topic_with_too_many_partitions_is_named_as_the_reason(estate, rest, name):
    create_topic(estate.bootstrap_servers("cluster-4"), f"acme-prod-{name}", 6)
    declare(rest, name)

    def failed():
        row = rest.ok("GET", f"{STREAMS}/{name}")
        return row if row["applied"]["cluster-4"] == "failed" else None

    row = eventually(failed, "failed on cluster-4")
    assert {state for cluster, state in row["applied"].items() if cluster != "cluster-4"} <= {"applied", "pending"}
    assert "6 partitions" in str(row)


@pytest.mark.nightly  # test_topic_made_anew
def test_a_topic_made_anew_by_somebody_gets_a_new_incarnation(estate, rest, name):
    row = declare(rest, name)
    eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")
    servers, topic = estate.bootstrap_servers("cluster-3"), row["technical_names"]["cluster-3"]
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)

    def incarnations():
        events = rest.ok("GET", "/events?limit=1000")["items"]
        return [
            event["data"]["incarnation"]
            for event in events
            if event["name"] == "StreamApplied"
            and (event["data"]["stream"], event["data"]["cluster"]) == (name, "cluster-3")
        ]

    eventually(lambda: incarnations() == [1, 2], "a second incarnation recorded")
