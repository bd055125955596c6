"""Faults during zone-local reads: mains, nodes and brokers, deleted objects, moved leaders, storage.

Every record is read once and in order, as the leaders have it.
"""

from __future__ import annotations

import os
import secrets
import time

import pytest
from confluent_kafka import Producer

from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.kafka.zones.consuming import Consuming
from tests.kafka.zones.test_faults import Producing
from tests.kafka.zones.test_gateway import everything, produce
from tests.kafka.zones.test_reads import cold, crossed
from tests.nightly import some_now
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import Router, client

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]


@pytest.fixture
def topic(reading: Router) -> str:
    name = f"faults-{secrets.token_hex(4)}"
    reading.brokers.create(name, REPLICAS)
    return name


def test_a_main_that_dies_leaves_no_gap(reading: Router, topic: str):
    """The leader serves reads while the main is down; after its return the missed records are stored whole."""
    node = reading.nodes["az2"]
    with Consuming(node, topic) as consuming, Producing(reading, topic, "az3") as producing:
        for zone in ("az1", "az3"):
            reading.nodes[zone].end(kill=True)
            time.sleep(1)
            reading.nodes[zone].start()
            producing.resumed()
        producing.stop()
        consuming.is_the_leaders(reading)
    settled = crossed(node, "fetch"), cold(node)
    assert everything(node.servers, topic, "zone=az2") == everything(reading.brokers.servers, topic)
    assert (crossed(node, "fetch"), cold(node)) == settled, "all of it is in object storage"


@pytest.mark.nightly
def test_a_proxy_that_dies_is_come_back_to(reading: Router, topic: str):
    node = reading.nodes["az2"]
    with Consuming(node, topic) as consuming, Producing(reading, topic, "az1") as producing:
        for _ in range(2):
            node.end(kill=True)
            node.start()
            producing.resumed()
        producing.stop()
        consuming.is_the_leaders(reading)


def test_leaders_that_move_while_they_are_read_from(reading: Router, topic: str):
    with Consuming(reading.nodes["az2"], topic) as consuming, Producing(reading, topic, "az1") as producing:
        for order in ([2, 3, 1], [3, 1, 2], [1, 2, 3]):
            move(reading, topic, {0: order, 3: order})
            producing.resumed()
        producing.stop()
        consuming.is_the_leaders(reading)


@pytest.mark.nightly  # leaders that move while they are read from stay
def test_what_was_written_before_leaders_moved_is_read_in_the_zone(reading: Router, topic: str):
    """A new reader reads from the data of earlier leaders' mains, with both isolation levels."""
    moves: list[tuple[str, dict[int, list[int]]]] = [
        ("az1", {}),
        ("az2", {0: [2, 3, 1], 1: [1, 2, 3]}),
        ("az3", {0: [3, 2, 1], 1: [2, 1, 3], 4: [1, 2, 3]}),
    ]
    for zone, orders in moves:
        if orders:
            move(reading, topic, orders)
        produce(client(reading.nodes[zone]), topic, [f"{zone} {number}" for number in range(600)])
    expected = everything(reading.brokers.servers, topic)
    assert len(expected) == 1_800
    before = {zone: (crossed(node, "fetch"), cold(node)) for zone, node in reading.nodes.items()}
    for zone, node in reading.nodes.items():
        for isolation in ("read_committed", "read_uncommitted"):
            assert everything(node.servers, topic, f"zone={zone}", isolation_level=isolation) == expected
        assert (crossed(node, "fetch"), cold(node)) == before[zone]


def move(reading: Router, topic: str, orders: dict[int, list[int]]) -> None:
    """Move the leader of each partition to the first of its brokers."""
    with ReplicaAdmin("tests", reading.brokers.servers, {}) as admin:
        assert admin.alter({(topic, partition): order for partition, order in orders.items()}) == {}
    for partition, order in orders.items():
        eventually(
            lambda at=partition, first=order[0]: led_by(reading, topic, at, first), "its leader is another one"
        )


def led_by(reading: Router, topic: str, partition: int, broker: int) -> bool:
    with ReplicaAdmin("tests", reading.brokers.servers, {}) as admin:
        admin.elect_preferred([(topic, partition)])
    found = reading.brokers.admin.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions[partition]
    return found.leader == broker


@pytest.mark.nightly
def test_a_broker_that_is_killed_while_it_is_read_from(reading: Router, topic: str):
    with Consuming(reading.nodes["az1"], topic) as consuming, Producing(reading, topic, "az1") as producing:
        reading.brokers.kill(3)
        producing.resumed()
        reading.brokers.start(3)
        producing.resumed()
        producing.stop()
        consuming.is_the_leaders(reading)


@some_now("kind", ["channel", "wal", "blk"], now=(2,))
@pytest.mark.nightly  # a main that dies leaves the same gap, which the leader fills
def test_objects_that_are_gone_are_asked_of_the_leader(reading: Router, topic: str, kind: str):
    """A new node has neither read nor cached the objects."""
    assert reading.channel is not None
    node = reading.nodes["az3"]
    with Producing(reading, topic, "az1") as producing:
        pass
    producing.stop()
    node.end()
    removed = 0
    for path in (reading.channel / kind).rglob("*"):
        if path.is_file() and path.stat().st_size > 100:
            path.unlink(missing_ok=True)
            removed += 1
    assert removed
    node.start()
    assert everything(node.servers, topic, "zone=az3") == everything(reading.brokers.servers, topic)


@pytest.mark.nightly  # the same outage for writers in test_mains; reads of a slow one in test_slow_storage
def test_a_storage_that_is_away_for_some_seconds(reading: Router, topic: str):
    assert reading.channel is not None
    aside = reading.channel.with_name("aside")
    with Consuming(reading.nodes["az2"], topic) as consuming, Producing(reading, topic, "az1") as producing:
        reading.channel.rename(aside)
        reading.channel.write_text("no folder")
        time.sleep(2)
        reading.channel.unlink()
        aside.rename(reading.channel)
        producing.resumed()
        producing.stop()
        consuming.is_the_leaders(reading)


@pytest.mark.nightly
def test_memory_is_bounded_by_the_caches(reading: Router, topic: str):
    """More data is written, read and announced than the node's caches hold."""
    node = reading.nodes["az2"]
    everything(node.servers, topic, "zone=az2")
    before = node.memory()
    producer = Producer(client(reading.nodes["az1"], linger_ms=20, message_max_bytes=1_000_000))
    for number in range(600):
        producer.produce(topic, os.urandom(500_000), partition=(0, 3)[number % 2])
        producer.poll(0)
        if number % 20 == 0:
            producer.flush()
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert len(everything(node.servers, topic, "zone=az2")) == 600
    assert node.memory() - before < CACHES + 100_000_000


CACHES = 24 * 1024 * 1024 + 16 * 1024 * 1024
"""Sum of cache_bytes and block_cache_bytes in conftest."""
