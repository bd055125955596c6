"""Records are read in the reader's zone.

Data of another zone's leader comes through object storage, identical to the leader's byte for byte.
"""

from __future__ import annotations

import secrets
import signal

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.eventually import eventually
from tests.kafka.zones.consuming import Consuming
from tests.kafka.zones.test_gateway import everything, produce
from tests.nightly import some_now
from tests.support.kafka.three_brokers import RACKS
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import Node, Router, client

ZONES = some_now("zone", RACKS, now=(1,))


@pytest.fixture
def topic(reading: Router) -> str:
    """Create a topic of six partitions, two led by each broker."""
    name = f"reads-{secrets.token_hex(4)}"
    reading.brokers.create(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    return name


def crossed(node: Node, plane: str) -> float:
    """Return the bytes that a node received from other zones."""
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


@pytest.mark.nightly  # records one by one are read in test_leaders_that_move_while_they_are_read_from
def test_one_record_at_a_time_is_read_as_it_comes(reading: Router, topic: str):
    producer = Producer(client(reading.nodes["az1"], linger_ms=0))
    with Consuming(reading.nodes["az2"], topic) as consuming:
        for number in range(30):
            producer.produce(topic, str(number), partition=number % 6)
            assert producer.flush(DEADLINE_SECONDS) == 0
            eventually(lambda number=number: len(consuming.found) == number + 1, f"{number} is read")
        consuming.is_the_leaders(reading)


@pytest.mark.parametrize(
    "isolation", ["read_committed", pytest.param("read_uncommitted", marks=pytest.mark.nightly)]
)
@pytest.mark.nightly  # test_zone_reader, with two mutants
def test_transactions_are_read_as_from_the_leader(reading: Router, topic: str, isolation: str):
    """Transactions are committed, aborted, concurrent, and one is open."""
    node = reading.nodes["az3"]
    before = cold(node)
    producers = [transactional(reading.nodes[zone]) for zone in RACKS]
    for turn in range(12):
        for at, producer in enumerate(producers):
            producer.begin_transaction()
            for number in range(10):
                producer.produce(topic, f"{turn}-{at}-{number}", partition=number % 6)
            producer.flush()
        for at, producer in enumerate(producers):
            (producer.abort_transaction if (turn + at) % 3 == 0 else producer.commit_transaction)(DEADLINE_SECONDS)
    produce(client(reading.nodes["az1"]), topic, ["plain"] * 60)
    producers[0].begin_transaction()
    producers[0].produce(topic, "open", partition=0)
    producers[0].flush()
    produce(client(reading.nodes["az1"]), topic, ["behind"] * 60)
    direct = everything(reading.brokers.servers, topic, isolation_level=isolation)
    eventually(
        lambda: everything(node.servers, topic, "zone=az3", isolation_level=isolation) == direct, "it is the same"
    )
    values = {value for _, _, _, _, value, _, _ in direct}
    assert (b"open" in values, b"0-0-0" in values) == ((isolation == "read_uncommitted",) * 2)
    assert len(direct) == (240 + 60 + 50 if isolation == "read_committed" else 360 + 121)
    assert cold(node) == before
    producers[0].abort_transaction(DEADLINE_SECONDS)
    direct = everything(reading.brokers.servers, topic, isolation_level=isolation)
    eventually(
        lambda: everything(node.servers, topic, "zone=az3", isolation_level=isolation) == direct, "and after it"
    )


def transactional(node: Node) -> Producer:
    producer = Producer(client(node, transactional_id=secrets.token_hex(4), linger_ms=1))
    producer.init_transactions(DEADLINE_SECONDS)
    return producer


@some_now(
    "config",
    [{"message_timestamp_type": "LogAppendTime"}, {"compression_type": "gzip"}],
    now=(0,),
    ids=lambda each: str(each),
)
def test_what_a_broker_writes_in_its_own_way_is_stored_whole(reading: Router, config: dict[str, str]):
    name = f"reads-{secrets.token_hex(4)}"
    reading.brokers.create(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]], **config)
    node = reading.nodes["az2"]
    before = cold(node)
    produce(client(reading.nodes["az1"], compression_type="zstd"), name, [str(n) for n in range(600)])
    assert everything(node.servers, name, "zone=az2") == everything(reading.brokers.servers, name)
    assert cold(node) == before


def test_what_did_not_come_by_the_router_is_read_in_the_zone_too(reading: Router, topic: str):
    node = reading.nodes["az2"]
    before = crossed(node, "fetch")
    produce({"bootstrap.servers": reading.brokers.servers}, topic, [str(n) for n in range(600)])
    assert everything(node.servers, topic, "zone=az2") == everything(reading.brokers.servers, topic)
    assert crossed(node, "fetch") == before


def test_a_topic_that_was_made_anew_is_another_one(reading: Router, topic: str):
    node = reading.nodes["az2"]
    produce(client(node), topic, [f"old-{n}" for n in range(60)])
    assert len(everything(node.servers, topic, "zone=az2")) == 60
    reading.brokers.change("deleted", topic)
    reading.brokers.create(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    produce(client(node), topic, [f"new-{n}" for n in range(30)])
    direct = everything(reading.brokers.servers, topic)
    assert len(direct) == 30
    assert everything(node.servers, topic, "zone=az2") == direct


def test_one_that_is_ahead_of_what_its_zone_knows_is_waited_for(reading: Router, topic: str):
    """The reader starts at the leader's end; the zone lags, as the main is paused."""
    node, main = reading.nodes["az2"], reading.nodes["az1"]
    direct = {"bootstrap.servers": reading.brokers.servers}
    produce(direct, topic, [str(n) for n in range(60)])
    assert len(everything(node.servers, topic, "zone=az2")) == 60
    before = crossed(node, "fetch"), cold(node)
    found: list[Message] = []
    assert main.process is not None
    main.process.send_signal(signal.SIGSTOP)
    try:
        produce(direct, topic, [f"late-{n}" for n in range(60)])
        reader = Consumer(client(node, group_id=secrets.token_hex(4), fetch_wait_max_ms=100))
        end = reader.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_SECONDS)[1]
        produce(direct, topic, [f"asked-{n}" for n in range(60)])
        reader.assign([TopicPartition(topic, 0, end)])
        found += reader.consume(1, 1.5)
        assert found == []
    finally:
        main.process.send_signal(signal.SIGCONT)
    eventually(lambda: found.extend(reader.consume(10, 0.5)) or len(found) == 10, "it is read")
    reader.close()
    assert end == 20 and [each.offset() for each in found] == list(range(20, 30))
    assert (crossed(node, "fetch"), cold(node)) == before


@pytest.mark.nightly  # test_zone_reader
def test_offsets_that_are_not_there_are_the_leaders_to_judge(reading: Router, topic: str):
    node = reading.nodes["az2"]
    produce(client(node), topic, [str(n) for n in range(600)])
    moved = reading.brokers.admin.delete_records([TopicPartition(topic, 0, 50)])
    assert [each.result(DEADLINE_SECONDS).low_watermark for each in moved.values()] == [50]
    producer = Producer(client(reading.nodes["az1"]))
    for reset, expected in (("earliest", 50), ("latest", 100)):
        for asked in (10, 5_000):
            reader = Consumer(client(node, group_id=secrets.token_hex(4), auto_offset_reset=reset))
            reader.assign([TopicPartition(topic, 0, asked)])
            first: list[Message] = []
            while not first:
                producer.produce(topic, "later", partition=0)
                assert producer.flush(DEADLINE_SECONDS) == 0
                first = reader.consume(1, 0.2)
            reader.close()
            assert first[0].error() is None
            assert first[0].offset() == expected if reset == "earliest" else first[0].offset() >= expected
