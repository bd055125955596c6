"""A real broker's responses to the router's own messages."""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka.record.default_records import DefaultRecordBatch

from backend.kafka.wire import metadata
from backend.kafka.wire.apis import SUPPORTED_VERSIONS, Api, Versions
from backend.kafka.wire.batches import Batch, ControlType, batches, control_type
from backend.kafka.wire.fetch_requests import FetchPartition, FetchRequest, fetch_request
from backend.kafka.wire.fetch_responses import FetchedPartition, read_fetch_response
from backend.kafka.wire.metadata import Broker, TopicMetadata
from backend.kafka.wire.offsets import (
    EARLIEST,
    LATEST,
    EpochEndQuery,
    OffsetQuery,
    epoch_ends_request,
    list_offsets_request,
    read_epoch_ends,
    read_list_offsets,
)
from tests.support.kafka.three_brokers import NODES, Brokers
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import Router

CLIENT = b"tests"
PLAIN, COMMITTED, ABORTED, OPEN = 0, 3, 6, 9
"""Start of each part of the log: three records; two and their transaction's end, twice; two of an open one."""
END = 11


class Connection:
    """Connection to one broker; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), DEADLINE_SECONDS)

    def ask(self, pieces) -> bytes:
        """Return the response without the size prefix."""
        message = b"".join(bytes(piece) for piece in pieces)
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the broker has closed the connection"
            found += part
        return found

    def end(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def brokers(all_running: dict[str, Router]) -> Brokers:
    """Provide the brokers without nodes."""
    running = all_running["passed"].brokers
    running.start(*NODES)
    return running


@pytest.fixture(scope="module")
def topic(brokers: Brokers) -> Iterator[str]:
    """Create a partition with records outside transactions, and of a committed, an aborted and an open one."""
    name = f"codecs-{secrets.token_hex(4)}"
    brokers.create(name, [[2, 1, 3]])
    plain = Producer({"bootstrap.servers": brokers.servers, "linger.ms": 5000})
    produce(plain, name, 3)
    writer = Producer({"bootstrap.servers": brokers.servers, "linger.ms": 5000, "transactional.id": name})
    writer.init_transactions(DEADLINE_SECONDS)
    for end in (writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        produce(writer, name, 2)
        end(DEADLINE_SECONDS)
    writer.begin_transaction()
    produce(writer, name, 2)
    yield name
    writer.abort_transaction(DEADLINE_SECONDS)


def produce(producer: Producer, topic: str, count: int) -> None:
    for at in range(count):
        producer.produce(topic, value=f"value {at}", partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


@pytest.fixture(scope="module")
def found(brokers: Brokers, topic: str) -> tuple[list[Broker], TopicMetadata]:
    """Return the topic's metadata from the first broker."""
    host, port = brokers.servers.split(",")[0].split(":")
    connection = Connection(host, int(port))
    try:
        told = metadata.read_metadata(connection.ask(metadata.metadata_request(5, CLIENT, [topic])))
    finally:
        connection.end()
    (one,) = told.topics
    return list(told.brokers), one


@pytest.fixture(scope="module")
def leader(found: tuple[list[Broker], TopicMetadata]) -> Iterator[Connection]:
    brokers, topic = found
    (there,) = (each for each in brokers if each.node == topic.partitions[0].leader_id)
    connection = Connection(there.host, there.port)
    yield connection
    connection.end()


def fetched(
    leader: Connection,
    version: int,
    topic: TopicMetadata,
    isolation: int,
    *,
    offset: int = 0,
    last_epoch: int = -1,
) -> FetchedPartition:
    epoch = topic.partitions[0].leader_epoch
    name = topic.name if version < 13 else topic.topic_id
    asked = FetchPartition(name, 0, epoch, offset, last_epoch, -1, 1_000_000)
    request = FetchRequest(500, 1, 1_000_000, isolation, 0, -1, [asked], rack_id="az2")
    answer = read_fetch_response(version, leader.ask(fetch_request(version, 9, CLIENT, request)))
    assert (answer.error, answer.session_id) == (0, 0)
    (one,) = answer.partitions
    assert (one.topic, one.partition, one.error) == (name, 0, 0)
    return one


def held(one: FetchedPartition) -> list[tuple[Batch, bytes]]:
    """Return the batches with their bytes; check their checksums."""
    (records,) = one.records
    each = [(batch, bytes(records[batch.at : batch.at + batch.size])) for batch in batches(records)]
    assert sum(batch.size for batch, _ in each) == len(records)
    assert all(DefaultRecordBatch(bytearray(data)).validate_crc() for _, data in each)
    return each


def test_metadata_is_that_of_the_cluster(brokers: Brokers, found: tuple[list[Broker], TopicMetadata]):
    there, topic = found
    seen = brokers.admin.list_topics(timeout=DEADLINE_SECONDS)
    assert {(each.node, each.host, each.port) for each in there} == {
        (each.id, each.host, each.port) for each in seen.brokers.values()
    }
    assert {each.rack for each in there} == {"az1", "az2", "az3"}
    assert topic.name in seen.topics
    assert topic.topic_id != bytes(16)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replicas, sorted(partition.isr)) == (2, (2, 1, 3), [1, 2, 3])


def test_a_broker_tells_what_it_speaks(leader: Connection):
    spoken = metadata.read_api_versions(leader.ask(metadata.api_versions_request(3, CLIENT)))
    assert spoken[Api.FETCH] == SUPPORTED_VERSIONS[Api.FETCH] == Versions(4, 18)
    assert spoken[Api.METADATA].first <= 11 <= spoken[Api.METADATA].last


@pytest.mark.parametrize("version", [4, 5, 7, 9, 11, 12, 13, 15, 16, 17, 18])
def test_a_fetch_gives_the_batches_that_were_produced(
    leader: Connection, found: tuple[list[Broker], TopicMetadata], version: int
):
    one = fetched(leader, version, found[1], isolation=0)

    whole = held(one)
    assert [batch.base_offset for batch, _ in whole] == [PLAIN, COMMITTED, 5, ABORTED, 8, OPEN]
    assert [batch.record_count for batch, _ in whole] == [3, 2, 1, 2, 1, 2]
    assert [batch.next_offset for batch, _ in whole] == [COMMITTED, 5, ABORTED, 8, OPEN, END]
    assert [batch.is_transactional for batch, _ in whole] == [False] + [True] * 5
    assert [control_type(data) for batch, data in whole if batch.is_control] == [
        ControlType.COMMIT, ControlType.ABORT,
    ]  # fmt: skip
    assert {batch.leader_epoch for batch, _ in whole} == {found[1].partitions[0].leader_epoch}
    assert [bytes(record.value) for record in DefaultRecordBatch(bytearray(whole[0][1]))] == [
        b"value 0", b"value 1", b"value 2",
    ]  # fmt: skip


@pytest.mark.parametrize("version", [4, 5, 12, 13, 18])
def test_a_fetch_tells_the_last_stable_offset_and_the_start_of_the_log_whatever_is_asked_for(
    leader: Connection, found: tuple[list[Broker], TopicMetadata], version: int
):
    for isolation in (0, 1):
        one = fetched(leader, version, found[1], isolation)
        assert (one.high_watermark, one.last_stable_offset) == (END, OPEN)
        assert one.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_a_fetch_of_what_is_committed_ends_before_what_is_open_and_tells_what_was_aborted(
    leader: Connection, found: tuple[list[Broker], TopicMetadata], version: int
):
    one = fetched(leader, version, found[1], isolation=1)
    whole = held(one)
    assert [batch.next_offset for batch, _ in whole][-1] == OPEN
    assert one.aborted == [(whole[3][0].producer_id, ABORTED)]
    assert fetched(leader, version, found[1], isolation=0).aborted is None


@pytest.mark.parametrize("version", [12, 13, 18])
def test_a_fetch_behind_the_end_of_an_epoch_is_told_where_logs_diverge(
    leader: Connection, found: tuple[list[Broker], TopicMetadata], version: int
):
    epoch = found[1].partitions[0].leader_epoch
    one = fetched(leader, version, found[1], 0, offset=END + 5, last_epoch=epoch)
    assert (one.diverging_epoch, one.records) == ((epoch, END), [])
    assert fetched(leader, version, found[1], 0, offset=OPEN, last_epoch=epoch).diverging_epoch is None


def test_offsets_and_ends_of_epochs_are_told(leader: Connection, found: tuple[list[Broker], TopicMetadata]):
    name, (partition,) = found[1].name, found[1].partitions

    def listed(isolation: int, timestamp: int) -> int:
        asked = [OffsetQuery(name, 0, partition.leader_epoch, timestamp)]
        (one,) = read_list_offsets(leader.ask(list_offsets_request(4, CLIENT, isolation, asked)))
        assert (one.topic, one.partition, one.error) == (name, 0, 0)
        return one.offset

    assert (listed(0, EARLIEST), listed(0, LATEST), listed(1, LATEST)) == (0, END, OPEN)
    asked = [EpochEndQuery(name, 0, partition.leader_epoch, partition.leader_epoch)]
    (end,) = read_epoch_ends(leader.ask(epoch_ends_request(4, CLIENT, asked)))
    assert end == (name, 0, 0, partition.leader_epoch, END)
