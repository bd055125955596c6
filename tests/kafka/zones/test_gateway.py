"""Unmodified clients use all features through the nodes of their zone, and connect to nothing else."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.kafka import kafka_tools
from tests.support.kafka.three_brokers import RACKS
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import BOTH_WAYS, BY_MAINS, BY_MAINS_NOW, PASSED, Router, client, until

ZONES = pytest.mark.parametrize("zone", RACKS)


def produce(config: dict, topic: str, values: list[str]) -> list[Message]:
    """Produce values; wait for each acknowledgement."""
    done: list[Message] = []
    producer = Producer(config)
    for at, value in enumerate(values):
        producer.produce(
            topic, key=value, value=value, partition=at % 6, headers=[("n", str(at))], on_delivery=_keep(done)
        )
        producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert [message.error() for message in done if message.error()] == []
    return done


def _keep(done: list[Message]):
    return lambda error, message: done.append(message)


def everything(servers: str, topic: str, client_id: str = "direct", **config: object) -> list[tuple]:
    """Return all records of a topic with their positions."""
    reader = Consumer(
        {"bootstrap.servers": servers, "client.id": client_id, "group.id": secrets.token_hex(4)}
        | {key.replace("_", "."): value for key, value in config.items()}
    )
    partitions = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(6)]
    reader.assign(partitions)
    ends = {each.partition: reader.get_watermark_offsets(each, DEADLINE_SECONDS)[1] for each in partitions}
    found: list[tuple] = []
    reached: dict[int, int] = {}
    for _ in until(DEADLINE_SECONDS):
        if all(reached.get(number, 0) >= end for number, end in ends.items()):
            break
        for message in reader.consume(1000, 0.5):
            assert message.error() is None, message.error()
            reached[message.partition()] = message.offset() + 1
            found.append(
                (
                    message.partition(),
                    message.offset(),
                    message.timestamp(),
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                    message.leader_epoch(),
                )
            )
        for position in reader.position(partitions):  # past control records, too
            reached[position.partition] = max(reached.get(position.partition, 0), position.offset)
    reader.close()
    return sorted(found)


@ZONES
def test_all_that_is_told_is_the_zones_own_whichever_node_is_asked(router: Router, topic: str, zone: str):
    """The zone is the client's, not that of its bootstrap node."""
    mine = router.nodes[zone]
    for node in router.nodes.values():
        admin = AdminClient(client(mine, bootstrap_servers=node.servers))
        brokers = admin.list_topics(topic, DEADLINE_SECONDS).brokers
        assert {id_: each.port for id_, each in brokers.items()} == mine.brokers
        described = admin.describe_cluster().result(DEADLINE_SECONDS)
        assert {each.id: (each.port, each.rack) for each in described.nodes} == {
            id_: (port, RACKS[id_ - 1]) for id_, port in mine.brokers.items()
        }


def test_a_client_of_no_zone_is_told_the_brokers_themselves_and_counted(router: Router, topic: str):
    node = router.nodes["az1"]
    before = node.samples("zoneless_total")[()]
    brokers = AdminClient({"bootstrap.servers": node.servers}).list_topics(topic, DEADLINE_SECONDS).brokers
    assert {each.port for each in brokers.values()} == router.ports_of_brokers
    assert node.samples("zoneless_total")[()] > before


@some_now(
    "router, zone", [*((BY_MAINS, zone) for zone in RACKS), (PASSED, RACKS[0])], now=(1, 3), indirect=["router"]
)
def test_records_are_the_same_as_by_the_brokers_byte_for_byte(router: Router, topic: str, zone: str):
    node = router.nodes[zone]
    sent = produce(
        client(node, compression_type="zstd", linger_ms=20), topic, [f"{zone}-{n}" for n in range(3_000)]
    )
    through = everything(node.servers, topic, f"zone={zone}")
    assert through == everything(router.brokers.servers, topic)
    assert {(each.partition(), each.offset(), each.value()) for each in sent} == {
        (partition, offset, value) for partition, offset, _, _, value, _, _ in through
    }
    assert router.strays(zone, os.getpid()) <= router.ports_of_brokers  # those of the direct reader may linger


@BY_MAINS_NOW
def test_a_client_lives_its_life_through_its_zone_and_connects_to_nothing_else(router: Router, topic: str):
    """The client runs in its own process: all of its connections are to nodes of its zone."""
    node = router.nodes["az2"]
    process = subprocess.Popen(
        ["python", "-c", _LIFE, node.servers, topic],
        env={**os.environ, "PATH": f"{os.path.dirname(os.sys.executable)}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    strays: set[int] = set()
    looks = 0
    while process.poll() is None:
        strays |= router.strays("az2", process.pid) if process.poll() is None else set()
        looks += 1
        time.sleep(0.02)
    output = process.stdout.read() if process.stdout else ""
    assert process.returncode == 0, output
    assert "lived" in output and strays == set() and looks > 20


_LIFE = """
import sys, uuid
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
servers, topic = sys.argv[1:]
base = {"bootstrap.servers": servers, "client.id": "zone=az2", "log_level": 0}
admin = AdminClient(base)
admin.create_topics([NewTopic(topic + "-copy", 6, 3)])[topic + "-copy"].result(60)
plain = Producer({**base, "acks": 0})
for n in range(500): plain.produce(topic, f"acks0-{n}")
assert plain.flush(60) == 0
sure = Producer({**base, "enable.idempotence": True, "linger.ms": 5})
for n in range(500): sure.produce(topic, f"sure-{n}")
assert sure.flush(60) == 0
group = str(uuid.uuid4())
readers = [Consumer({**base, "group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol,
                     "enable.auto.commit": False, "isolation.level": "read_committed"})
           for protocol in ("consumer", "consumer")]
for reader in readers: reader.subscribe([topic])
copier = Producer({**base, "transactional.id": group})
copier.init_transactions(60)
copied = 0
turn = 0
while copied < 1000:
    reader = readers[turn % 2]; turn += 1
    records = reader.consume(200, 0.5)
    if not records: continue
    assert not [r.error() for r in records if r.error()]
    copier.begin_transaction()
    for record in records: copier.produce(topic + "-copy", record.value())
    ends = {}
    for record in records: ends[record.partition()] = record.offset() + 1
    stale = False
    try:
        copier.send_offsets_to_transaction([TopicPartition(topic, p, o) for p, o in ends.items()],
                                           reader.consumer_group_metadata(), 60)
    except KafkaException as error:  # the group has rebalanced between the two calls: KIP-447 fences the commit
        stale = error.args[0].code() == KafkaError.ILLEGAL_GENERATION and error.args[0].txn_requires_abort()
        if not stale: raise
    if stale or turn % 3 == 0:
        copier.abort_transaction(60)
        for partition in reader.committed(reader.assignment(), 60):
            reader.seek(TopicPartition(topic, partition.partition, max(0, partition.offset)))
        continue
    copier.commit_transaction(60)
    copied += len(records)
for reader in readers: reader.close()
classic = Consumer({**base, "group.id": group + "c", "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed"})
classic.subscribe([topic + "-copy"])
seen = []
while len(seen) < 1000: seen += [r.value() for r in classic.consume(500, 1.0)]
classic.commit(asynchronous=False)
classic.close()
assert len(seen) == 1000 == len(set(seen)), (len(seen), len(set(seen)))
listed = {g.group_id for g in admin.list_consumer_groups().result(60).valid}
assert {group, group + "c"} <= listed
for done in admin.delete_consumer_groups([group + "c"]).values(): done.result(60)
admin.delete_topics([topic + "-copy"])[topic + "-copy"].result(60)
print("lived")
"""


@pytest.mark.nightly
def test_javas_clients_do_the_same(router: Router, topic: str, tmp_path: Path):
    config = tmp_path / "producer.properties"
    node = router.nodes["az3"]
    config.write_text(f"bootstrap.servers={node.servers}\nclient.id=zone=az3\ncompression.type=lz4\n")
    servers = ("--bootstrap-server", node.servers)
    lines = "".join(f"java-{n}\n" for n in range(1_000))
    made = kafka_tools.run(
        kafka_tools.PRODUCER,
        *servers,
        "--topic",
        topic,
        "--producer-property",
        "client.id=zone=az3-java",
        stdin=lines,
    )
    assert made.returncode == 0, made.stderr
    performed = kafka_tools.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "1000", "--throughput", "-1"),
        *("--transactional-id", topic, "--transaction-duration-ms", "50"),
        *("--producer.config", str(config)),
    )
    assert performed.returncode == 0 and "2000 records sent" in performed.stdout, performed.stderr
    for protocol in ("classic", "consumer"):
        read = kafka_tools.run(
            kafka_tools.CONSUMER,
            *(*servers, "--topic", topic, "--from-beginning", "--max-messages", "3000", "--timeout-ms", "60000"),
            *("--consumer-property", "client.id=zone=az3", "--consumer-property", f"group.protocol={protocol}"),
            *("--consumer-property", "isolation.level=read_committed", "--group", f"{topic}-{protocol}"),
        )
        assert len(read.stdout.splitlines()) == 3_000, read.stderr
        assert Counter(line for line in read.stdout.splitlines() if line.startswith("java-")) == Counter(
            lines.split()
        )
    assert node.samples("bytes_total").get(("az3", "transaction", "az3"), 0) > 0


@BY_MAINS_NOW
def test_a_leader_that_moves_is_followed_within_the_zone(router: Router, topic: str):
    """Responses with the new leader name its node in the zone (KIP-951), so no client bypasses it."""
    node = router.nodes["az1"]
    config = client(node, enable_idempotence=True, linger_ms=1, topic_metadata_refresh_interval_ms=600_000)
    done: list[Message] = []
    producer = Producer(config)
    reader = Consumer(
        client(node, group_id=topic, auto_offset_reset="earliest", topic_metadata_refresh_interval_ms=600_000)
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    before = node.samples("addresses_total")
    leaders = []
    with ReplicaAdmin(topic, router.brokers.servers, {}) as admin:
        for number, order in enumerate(([2, 1, 3], [3, 2, 1], [1, 2, 3])):
            for n in range(200):
                producer.produce(topic, f"{number}-{n}", partition=0, on_delivery=_keep(done))
                producer.poll(0.002)
            assert admin.alter({(topic, 0): order}) == {}
            eventually(lambda order=order: _replicas(router, topic) == order, "the order is another one")
            _elect(router, topic)
            eventually(lambda order=order: _leader(router, topic) == order[0], "another one leads")
            leaders.append(order[0])
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert [each.error() for each in done if each.error()] == [] and len(done) == 600
    read: list[bytes] = []
    for _ in until(DEADLINE_SECONDS):
        if len(read) >= 600:
            break
        read += [each.value() for each in reader.consume(500, 0.5) if each.error() is None]
    reader.close()
    assert read == [f"{number}-{n}".encode() for number in range(3) for n in range(200)]
    after = node.samples("addresses_total")
    told = {request for (request,), count in after.items() if count > before.get((request,), 0)}
    assert told & {"produce", "fetch"}, (before, after)


def _leader(router: Router, topic: str) -> int:
    return router.brokers.admin.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions[0].leader


def _replicas(router: Router, topic: str) -> list[int]:
    return router.brokers.admin.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions[0].replicas


def _elect(router: Router, topic: str) -> None:
    from confluent_kafka import ElectionType

    try:
        router.brokers.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(
            DEADLINE_SECONDS
        )
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.ELECTION_NOT_NEEDED


def test_requests_of_operators_pass(router: Router, topic: str):
    node = router.nodes["az2"]
    produce(client(node), topic, [f"{n}" for n in range(60)])
    admin = AdminClient(client(node))
    admin.create_topics([NewTopic(f"{topic}-b", 1, 3)])[f"{topic}-b"].result(DEADLINE_SECONDS)
    eventually(lambda: f"{topic}-b" in admin.list_topics(timeout=10).topics, "it is there")
    ends = admin.list_offsets({TopicPartition(topic, n): OffsetSpec.latest() for n in range(6)})
    assert [each.result(DEADLINE_SECONDS).offset for each in ends.values()] == [10] * 6
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    assert deleted.result(DEADLINE_SECONDS).low_watermark == 5
    first = admin.list_offsets(
        {TopicPartition(topic, 0): OffsetSpec.earliest()}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    assert next(iter(first.values())).result(DEADLINE_SECONDS).offset == 5
    admin.delete_topics([f"{topic}-b"])[f"{topic}-b"].result(DEADLINE_SECONDS)


@BOTH_WAYS
def test_bytes_are_counted_by_plane_and_zones(router: Router, topic: str):
    """A client in az1 uses a partition that is led in az3.

    Its data goes from az1 to az1 and then, forwarded, to az3; through the channel only announcements go there.
    """
    node = router.nodes["az1"]
    before = node.samples("bytes_total")
    producer = Producer(client(node, message_max_bytes=2_000_000))
    for _ in range(8):
        producer.produce(topic, os.urandom(1_000_000), partition=2)  # led by broker 3
    assert producer.flush(DEADLINE_SECONDS) == 0
    after = node.samples("bytes_total")
    grown = {hop: count - before.get(hop, 0) for hop, count in after.items()}
    sent = {(start, end): count for (start, plane, end), count in grown.items() if plane == "produce"}
    assert 8_000_000 <= sent["az1", "az1"] < 8_020_000
    if router.channel is None:
        assert 8_000_000 <= sent["az1", "az3"] < 8_020_000
    else:
        assert sent.get(("az1", "az3"), 0) == 0
        assert 0 < grown["az1", "route", "az3"] + grown["az3", "route", "az1"] < 4_000
