"""A cluster that has lived without Treeline is added, adopted and joined to the tree, on real brokers."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce, read_all

ESTATE = """\
name: adopting
primary: cluster-1
clusters:
  cluster-1: {brokers: 1}
  cluster-2: {brokers: 1, topic_format: "{tenant}-{environment}-{topic}"}
  cluster-3: {brokers: 1}
tree: {level: 1, children: [{cluster: cluster-1}, {cluster: cluster-2}]}
tenants:
  acme: {instances: {retail: {environments: {prod: {streams: {orders: {partitions: 2}}}}}}}
"""
JOINED = {
    "level": 2,
    "children": [
        {"cluster": "cluster-3"},
        {"level": 1, "children": [{"cluster": "cluster-1"}, {"cluster": "cluster-2"}]},
    ],
}
PARCELS, ORDERS, STAMPED = "globex-eu-dev-parcels", "acme-retail-prod-orders", "acme-retail-prod-stamped"
AMBIGUOUS, CHANGELOG, GROUP = "a-b-c-d-e", "acme-retail-prod-app-store-changelog", "acme-retail-prod-billing"
COPIED = "acme-retail-prod-copied"
ACTIONS = {
    PARCELS: "declare",
    ORDERS: "join",
    STAMPED: "unmanaged",
    AMBIGUOUS: "ambiguous",
    CHANGELOG: "unmanaged",
    COPIED: "declare",
    "__consumer_offsets": "unmanaged",
}
T0 = int(time.time()) * 1000 - 3_600_000  # within the retention, or brokers delete them while the test runs


@pytest.fixture
def adopting(boot_estate, tmp_path):
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE)
    running = boot_estate(file)
    assert running.booted.returncode == 0, running.booted.stderr
    return running


def described(servers, topic):
    """Everything that the owner of a topic can see of it but its records."""
    admin = AdminClient({"bootstrap.servers": servers})
    topic_id = str(admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_SECONDS).topic_id)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    config = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)
    return topic_id, {name: entry.value for name, entry in config.items()}


def records(messages):
    return [
        (m.partition(), m.offset(), m.key(), m.value(), m.timestamp()[1], list(m.headers() or ()))
        for m in messages
    ]


def fill(servers):
    """Create topics as stock clients leave them on a cluster."""
    create_topic(servers, PARCELS, 3, retention_ms="-1", segment_ms="777777", max_message_bytes="2000000")
    create_topic(servers, ORDERS, 3, retention_ms="604800000")
    create_topic(servers, STAMPED, 1, message_timestamp_type="LogAppendTime")
    create_topic(servers, AMBIGUOUS, 1)
    create_topic(servers, CHANGELOG, 1)
    for topic, partitions in ((PARCELS, 3), (ORDERS, 3), (STAMPED, 1), (AMBIGUOUS, 1), (CHANGELOG, 1)):
        made = (
            {
                "key": b"k%d" % (n % 7),
                "value": None if n % 50 == 0 else b"%s %d" % (topic.encode(), n),
                "partition": n % partitions,
                "timestamp": T0 + n,
                "headers": [("of", b"%d" % n)],
            }
            for n in range(300)
        )
        produce(servers, topic, made)
    create_topic(servers, COPIED, 2)
    flags = [{"value": b"%d" % n, "partition": 1, "headers": [("copy-flags", b"\0\0\0\4")]} for n in range(5)]
    produce(servers, COPIED, flags)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(PARCELS, 1, 42)], asynchronous=False)
    consumer.close()


@pytest.mark.nightly
def test_a_cluster_with_data_is_adopted_and_every_record_gets_everywhere_once(adopting):
    rest = RestClient(adopting.url, adopting.token)
    servers = {name: adopting.bootstrap_servers(name) for name in ("cluster-1", "cluster-2", "cluster-3")}
    theirs = servers["cluster-3"]
    fill(theirs)
    before = {topic: (described(theirs, topic), records(read_all(theirs, topic))) for topic in (PARCELS, STAMPED)}
    orders = "/tenants/acme/instances/retail/environments/prod/streams/orders"
    eventually(lambda: set(rest.ok("GET", orders)["applied"].values()) == {"applied"}, "orders are declared")
    own = [b"own %d" % n for n in range(100)]
    produce(servers["cluster-1"], ORDERS, [{"value": value, "partition": n % 2} for n, value in enumerate(own)])

    planned = adopting.treeline("adopt", "cluster-3", "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    rows = {row["topic"]: row for row in plan["topics"]}
    assert {name: row["action"] for name, row in rows.items()} == ACTIONS
    assert rows[PARCELS]["stream"] == "globex/eu/dev/parcels"
    assert rows[PARCELS]["changes"] == {"max.message.bytes": {"from": "2000000", "to": "2001024"}}
    assert rows[ORDERS]["changes"]["stream partitions"] == {"from": "2", "to": "3"}
    assert "another replicator" in rows[ORDERS]["warnings"][0]
    assert [name for name, row in rows.items() if "treated as copies" in " ".join(row["warnings"])] == [COPIED]
    assert [row["stands_for"] for row in plan["groups"] if row["group"] == GROUP] == ["acme/retail/prod/billing"]
    assert rest("GET", "/tenants/globex").status_code == 404  # a plan changes nothing

    adopted = adopting.treeline("adopt", "cluster-3", "--as", f"a/b-c/d/e={AMBIGUOUS}", "--json")
    assert adopted.returncode == 0, adopted.stderr
    assert json.loads(adopted.stdout) == {"cluster": "cluster-3", "adopted": 4, "refused": {}}
    stale = rest("POST", "/clusters/cluster-3/adoption", {"digest": plan["digest"]})
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:treeline:plan-stale")

    rest.ok("PUT", "/trees/main", JOINED)
    for topic, short in ((PARCELS, "globex-dev-parcels"), (ORDERS, "acme-prod-orders"), (AMBIGUOUS, "a-d-e")):
        everywhere_once(servers, topic, short, own if topic == ORDERS else [])

    (topic_id, config), log = before[PARCELS]
    now_id, now = described(theirs, PARCELS)
    assert now_id == topic_id
    assert {name for name in config if config[name] != now[name]} == {"max.message.bytes"}
    assert records(read_all(theirs, PARCELS)) == log
    assert (described(theirs, STAMPED), records(read_all(theirs, STAMPED))) == before[STAMPED]
    consumer = Consumer({"bootstrap.servers": theirs, "group.id": GROUP})
    assert [each.offset for each in consumer.committed([TopicPartition(PARCELS, 1)], 15)] == [42]
    consumer.close()
    parcels = rest.ok("GET", "/tenants/globex/instances/eu/environments/dev/streams/parcels")
    assert (parcels["incarnations"]["cluster-3"], parcels["retention_ms"]) == (1, -1)
    again = json.loads(adopting.treeline("adopt", "cluster-3", "--dry-run", "--json").stdout)
    kept = {row["topic"] for row in again["topics"] if row["action"] == "kept"}
    assert kept >= {PARCELS, ORDERS, AMBIGUOUS}


def everywhere_once(servers, topic, short, own):
    """The 300 records of cluster-3, and those that were born on cluster-1, are on every cluster once, in order."""
    names = {"cluster-1": topic, "cluster-2": short, "cluster-3": topic}

    def all_there(cluster):
        found = read_all(servers[cluster], names[cluster])
        return found if len(found) >= 300 + len(own) else None

    for cluster in names:
        found = eventually(lambda c=cluster: all_there(c), f"{topic} on {cluster}", 0.5)
        theirs = [m for m in found if m.headers() and m.headers()[0][0] == "of"]
        numbers = [(int(m.headers()[0][1]), m.key(), m.value(), m.timestamp()[1]) for m in theirs]
        assert sorted(number for number, *_ in numbers) == list(range(300)), cluster
        assert all((key, time) == (b"k%d" % (n % 7), T0 + n) for n, key, _, time in numbers)
        assert all((value is None) == (n % 50 == 0) for n, _, value, _ in numbers)
        by_partition = {m.partition(): [] for m in theirs}
        for message in theirs:
            by_partition[message.partition()].append(int(message.headers()[0][1]))
        assert all(numbers == sorted(numbers) for numbers in by_partition.values())
        assert sorted(m.value() for m in found if m not in theirs) == sorted(own), cluster
