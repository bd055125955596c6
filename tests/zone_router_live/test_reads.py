"""Records are read in the reader's zone: what comes from another zone's leader comes through object storage, and
is the same as the leader's, byte for byte.
"""

from __future__ import annotations

import secrets
import time

import pytest
from confluent_kafka import Producer

from tests.kafka import DEADLINE_SECONDS
from tests.placement_live.brokers import RACKS
from tests.zone_router_live.nodes import Node, Router, client
from tests.zone_router_live.test_gateway import everything, produce

ZONES = pytest.mark.parametrize("zone", RACKS)


@pytest.fixture
def topic(reading: Router) -> str:
    """Six partitions, two led by each broker."""
    name = f"reads-{secrets.token_hex(4)}"
    reading.brokers.create(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    return name


def crossed(node: Node, plane: str) -> float:
    """Bytes that came to a node from other zones."""
    return sum(
        value
        for (from_zone, of_plane, to_zone), value in node.samples("bytes_total").items()
        if of_plane == plane and to_zone == node.zone and from_zone != node.zone
    )


def cold(node: Node) -> float:
    return sum(node.samples("cold_reads_total").values())


@ZONES
def test_what_is_read_in_a_zone_is_the_leaders_log_and_none_of_it_crossed(reading: Router, topic: str, zone: str):
    node = reading.nodes[zone]
    before = crossed(node, "fetch"), cold(node)
    for producing in RACKS:
        values = [f"{producing}-{number}-{secrets.token_hex(100)}" for number in range(2_000)]
        produce(client(reading.nodes[producing], linger_ms=5), topic, values)
    through = everything(node.servers, topic, f"zone={zone}")
    assert len(through) == 6_000
    assert through == everything(reading.brokers.servers, topic)
    assert cold(node) == before[1]
    assert crossed(node, "fetch") == before[0]


def test_who_reads_at_the_end_is_woken_by_what_comes(reading: Router, topic: str):
    node = reading.nodes["az2"]
    produce(client(reading.nodes["az1"]), topic, ["first"] * 6)
    late = []
    for number in range(20):
        producer = Producer(client(reading.nodes["az1"], linger_ms=0))
        producer.produce(topic, str(number), partition=0)
        assert producer.flush(DEADLINE_SECONDS) == 0
        begun = time.monotonic()
        found = everything(node.servers, topic, "zone=az2")
        late.append(time.monotonic() - begun)
        assert len(found) == 7 + number
