"""Topics that are changed outside Treeline while records flow: restored, adopted, or refused with the reason."""

from __future__ import annotations

import threading
import uuid

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from backend.domain.topics.topic_settings import DECLARABLE, FIELD_OF, NOT_A_DECLARATION
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce, read_all

STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"


@pytest.fixture
def rest(estate):
    return RestClient(estate.url, estate.token)


@pytest.fixture
def name(rest):
    name = f"s{uuid.uuid4().hex[:8]}"
    yield name
    # The estate is shared: what is refused here would degrade its distributors for other tests.
    rest("DELETE", f"{STREAMS}/{name}?confirm=acme/retail/prod/{name}")


def admin(servers):
    return AdminClient({"bootstrap.servers": servers})


def configure(servers, topic, key, value):
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(servers)  # held: a client that is collected ends its calls
    next(iter(client.incremental_alter_configs([resource]).values())).result(DEADLINE_SECONDS)


def config_of(servers, topic, key):
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = admin(servers)
    return client.describe_configs([resource])[resource].result(DEADLINE_SECONDS)[key].value


def declare(rest, name, **fields):
    rest.ok("POST", STREAMS, {"name": name, "partitions": 2, **fields})
    return eventually(lambda: applied_everywhere(rest, name), "applied on all clusters")


def applied_everywhere(rest, name):
    row = rest.ok("GET", f"{STREAMS}/{name}")
    return row if set(row["applied"].values()) == {"applied"} else None


def events_of(rest, name, kind):
    found = rest.ok("GET", "/events?limit=1000")["items"]
    return [event for event in found if event["name"] == kind and event["data"].get("stream") == name]


def arrived(servers, topic):
    return [message.value() for message in read_all(servers, topic)]


def everywhere_once(estate, row, sent):
    for cluster, topic in row["technical_names"].items():
        servers = estate.bootstrap_servers(cluster)
        eventually(lambda s=servers, t=topic: set(arrived(s, t)) >= set(sent), f"all on {cluster}", 0.5)
        assert sorted(arrived(servers, topic)) == sorted(sent), cluster


def test_a_configuration_that_drifted_is_set_back_and_the_log_says_what_it_was(estate, rest, name):
    row = declare(rest, name, retention_ms=3_600_000)
    servers, topic = estate.bootstrap_servers("cluster-2"), row["technical_names"]["cluster-2"]
    configure(servers, topic, "retention.ms", "1000")
    configure(servers, topic, "segment.ms", "60000")
    eventually(lambda: config_of(servers, topic, "retention.ms") == "3600000", "the retention set back", 0.3)
    (event,) = eventually(lambda: events_of(rest, name, "StreamDrifted"), "recorded")
    assert (event["data"]["cluster"], event["data"]["found"]) == ("cluster-2", {"retention.ms": "1000"})
    assert event["data"]["reason"] is None
    # Settings without a declaration belong to the owner.
    assert config_of(servers, topic, "segment.ms") == "60000"


@pytest.mark.nightly  # test_adoption, with a mutant
def test_a_topic_whose_brokers_stamp_their_time_is_refused_and_left_as_it_is(estate, rest, name):
    servers, topic = estate.bootstrap_servers("cluster-4"), f"acme-prod-{name}"
    create_topic(servers, topic, 2, message_timestamp_type="LogAppendTime", retention_ms="7777777")
    produce(servers, topic, [{"value": b"old", "partition": 0}])
    rest.ok("POST", STREAMS, {"name": name, "partitions": 2})

    def refused():
        row = rest.ok("GET", f"{STREAMS}/{name}")
        return row if row["applied"]["cluster-4"] == "failed" else None

    row = eventually(refused, "refused on cluster-4")
    assert "LogAppendTime" in row["failures"]["cluster-4"]

    def degraded():
        rows = rest.ok("GET", "/trees/main/distributors")
        named = {(r["cluster"], r["target"]) for r in rows if r["state"] == "degraded" and name in r["reason"]}
        ends = {(r["cluster"], r["target"]) for r in rows if "cluster-4" in (r["cluster"], r["target"])}
        return named >= ends

    eventually(degraded, "its distributors say so", 0.3)
    assert config_of(servers, topic, "message.timestamp.type") == "LogAppendTime"
    assert config_of(servers, topic, "retention.ms") == "7777777"
    configure(servers, topic, "message.timestamp.type", "CreateTime")
    row = eventually(lambda: applied_everywhere(rest, name), "applied once its owner has set CreateTime", 0.3)
    everywhere_once(estate, row, [b"old"])


@some_now("by", ["hand", "declaration"], now=(0,))
def test_new_partitions_lose_nothing_whoever_makes_them_while_records_flow(estate, rest, name, by):
    row = declare(rest, name)
    servers, topic = estate.bootstrap_servers("cluster-3"), row["technical_names"]["cluster-3"]
    other, theirs = estate.bootstrap_servers("cluster-1"), row["technical_names"]["cluster-1"]
    sent = [b"before %d" % n for n in range(200)]
    produce(servers, topic, [{"value": value, "partition": n % 2} for n, value in enumerate(sent)])
    flowing, stop = [], threading.Event()

    def flow():
        number = 0
        while not stop.is_set():
            batch = [b"flow %d" % n for n in range(number, number + 20)]
            produce(other, theirs, [{"value": value, "partition": n % 2} for n, value in enumerate(batch)])
            flowing.extend(batch)
            number += 20

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        if by == "hand":
            client = admin(servers)
            client.create_partitions([NewPartitions(topic, 5)])[topic].result(DEADLINE_SECONDS)
        else:
            rest.ok("PATCH", f"{STREAMS}/{name}", {"partitions": 5})
        eventually(
            lambda: len(admin(servers).list_topics(topic, timeout=DEADLINE_SECONDS).topics[topic].partitions) == 5,
            "grown",
        )
        new = [b"new %d" % n for n in range(300)]
        produce(servers, topic, [{"value": value, "partition": 2 + n % 3} for n, value in enumerate(new)])
        eventually(lambda: (applied_everywhere(rest, name) or row)["partitions"] == 5, "5 on all clusters", 0.3)
    finally:
        stop.set()
        thread.join()
    everywhere_once(estate, row, sent + new + flowing)


@pytest.mark.nightly  # a megabyte in test_copy_session; a topic's room for headers: test_adoption, with a mutant
def test_records_as_large_as_the_stream_declares_arrive_with_our_headers(estate, rest, name):
    row = declare(rest, name, max_message_bytes=3_000_000)
    servers, topic = estate.bootstrap_servers("cluster-5"), row["technical_names"]["cluster-5"]
    assert config_of(servers, topic, "max.message.bytes") == "3001024"
    large = [bytes([n]) * 2_999_800 for n in range(2)]
    produce(servers, topic, [{"value": v, "partition": 0} for v in large], **{"message.max.bytes": 4_000_000})
    everywhere_once(estate, row, large)


def test_every_topic_setting_of_the_brokers_is_known(estate):
    """Check the table of settings against a broker: it must not show one that the table lacks."""
    servers = estate.bootstrap_servers("cluster-1")
    client = admin(servers)
    topic = next(name for name in client.list_topics(timeout=DEADLINE_SECONDS).topics if name.startswith("acme-"))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    shown = set(client.describe_configs([resource])[resource].result(DEADLINE_SECONDS))
    assert len(shown) > 25
    assert shown <= {*DECLARABLE, *FIELD_OF, *NOT_A_DECLARATION}


def test_declared_topic_settings_are_on_every_cluster_and_go_back_when_they_are_taken_out(estate, rest, name):
    config = {"compression.type": "zstd", "segment.bytes": 2_097_152, "min.cleanable.dirty.ratio": ".10"}
    row = declare(rest, name, config=config)
    assert row["config"] == {
        "compression.type": "zstd",
        "min.cleanable.dirty.ratio": "0.1",
        "segment.bytes": "2097152",
    }

    def on_all(setting, value):
        return all(
            config_of(estate.bootstrap_servers(cluster), topic, setting) == value
            for cluster, topic in row["technical_names"].items()
        )

    for setting, value in row["config"].items():
        assert on_all(setting, value), setting
    rest.ok("PATCH", f"{STREAMS}/{name}", {"config": {"segment.bytes": "1048576"}})
    eventually(lambda: applied_everywhere(rest, name), "applied again")
    assert on_all("segment.bytes", "1048576")
    assert on_all("compression.type", "producer")


@pytest.mark.nightly  # a configuration that drifted stays
def test_a_setting_that_one_cluster_alone_has_is_shown_as_drift_until_it_is_declared(estate, rest, name):
    row = declare(rest, name)
    assert row["drift"] == []
    servers, topic = estate.bootstrap_servers("cluster-2"), row["technical_names"]["cluster-2"]
    configure(servers, topic, "compression.type", "gzip")
    (drift,) = eventually(lambda: rest.ok("GET", f"{STREAMS}/{name}")["drift"], "the drift is shown", 0.3)
    assert (drift["setting"], drift["declared"]) == ("compression.type", None)
    assert drift["clusters"]["cluster-2"] == {"value": "gzip", "source": "topic"}
    assert drift["clusters"]["cluster-1"] == {"value": "producer", "source": "default"}
    told = estate.treeline("describe", "stream", f"acme/retail/prod/{name}")
    assert "compression.type" in told.stdout
    rest.ok("PATCH", f"{STREAMS}/{name}", {"config": {"compression.type": "lz4"}})
    eventually(lambda: not rest.ok("GET", f"{STREAMS}/{name}")["drift"], "declared, it is alike everywhere", 0.3)
    assert config_of(servers, topic, "compression.type") == "lz4"


def test_a_setting_that_a_cluster_refuses_is_said_with_its_words(estate, rest, name):
    rest.ok("POST", STREAMS, {"name": name, "config": {"remote.storage.enable": True}})

    def failed():
        row = rest.ok("GET", f"{STREAMS}/{name}")
        return row["failures"] if len(row["failures"]) == len(row["technical_names"]) else None

    assert all("emote" in reason for reason in eventually(failed, "refused everywhere").values())
