"""Fetch requests and responses, compared with kafka-python; messages are drawn by Kafka's definitions."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as KafkaFetchRequest
from kafka.protocol.consumer import FetchResponse as KafkaFetchResponse

from backend.kafka.wire.apis import SUPPORTED_VERSIONS, Api
from backend.kafka.wire.encoding import MessageMalformed, Topic
from backend.kafka.wire.fetch_requests import (
    FetchPartition,
    FetchRequest,
    ForgottenTopic,
    fetch_request,
    read_fetch,
)
from backend.kafka.wire.fetch_responses import (
    FetchedPartition,
    FetchResponse,
    NodeEndpoint,
    fetch_response,
    read_fetch_response,
)
from backend.kafka.wire.requests import read_request
from tests.nightly import some_now
from tests.unit.wire.messages import (
    INT16,
    INT32,
    INT64,
    SLOW,
    TEXT,
    body,
    by_topic,
    joined,
    messages,
    varint,
    without_strange,
    written,
)

VERSIONS = range(SUPPORTED_VERSIONS[Api.FETCH].first, SUPPORTED_VERSIONS[Api.FETCH].last + 1)
FIRST_FLEXIBLE = 12
EACH_VERSION = some_now("version", VERSIONS, now=(0, VERSIONS.index(FIRST_FLEXIBLE), len(VERSIONS) - 1))


def topics(version: int) -> st.SearchStrategy[Topic]:
    return TEXT if version < 13 else st.binary(min_size=16, max_size=16)


def since(first: int, version: int, values: st.SearchStrategy, default) -> st.SearchStrategy:
    """Draw values for versions that have the field; use the default for others."""
    return values if version >= first else st.just(default)


def drawn_requests(version: int) -> st.SearchStrategy[FetchRequest]:
    partition = st.builds(
        FetchPartition,
        topic=topics(version),
        partition=INT32,
        leader_epoch=since(9, version, INT32, -1),
        fetch_offset=INT64,
        last_fetched_epoch=since(12, version, INT32, -1),
        log_start_offset=since(5, version, INT64, -1),
        max_bytes=INT32,
    )
    forgotten = st.builds(ForgottenTopic, topics(version), st.lists(INT32, max_size=3).map(tuple))
    return st.builds(
        FetchRequest,
        max_wait_ms=INT32,
        min_bytes=INT32,
        max_bytes=INT32,
        isolation=st.sampled_from([0, 1]),
        session_id=since(7, version, INT32, 0),
        session_epoch=since(7, version, INT32, -1),
        partitions=st.lists(partition, max_size=4).map(by_topic),
        forgotten=since(7, version, st.lists(forgotten, max_size=3), []),
        rack_id=since(11, version, TEXT, ""),
        replica_id=INT32,
    )


def drawn_answers(version: int) -> st.SearchStrategy[FetchResponse]:
    partition = st.builds(
        FetchedPartition,
        topic=topics(version),
        partition=INT32,
        error=INT16,
        high_watermark=INT64,
        last_stable_offset=INT64,
        log_start_offset=since(5, version, INT64, -1),
        aborted=st.none() | st.lists(st.tuples(INT64, INT64), max_size=3),
        preferred_replica=since(11, version, INT32, -1),
        records=st.lists(st.binary(min_size=1, max_size=200), max_size=3),
        diverging_epoch=since(12, version, st.none() | st.tuples(INT32, INT64), None),
        current_leader=since(12, version, st.none() | st.tuples(INT32, INT32), None),
    )
    endpoint = st.builds(NodeEndpoint, INT32, TEXT, INT32, st.none() | TEXT)
    return st.builds(
        FetchResponse,
        throttle_ms=INT32,
        error=since(7, version, INT16, 0),
        session_id=since(7, version, INT32, 0),
        partitions=st.lists(partition, max_size=4).map(by_topic),
        endpoints=since(16, version, st.lists(endpoint, max_size=3), []),
    )


def topic_of(theirs, version: int) -> Topic:
    if version < 13:
        return theirs.topic
    return bytes(16) if theirs.topic_id is None else theirs.topic_id.bytes


def their_request(version: int, message: bytes) -> FetchRequest:
    """Read a request with kafka-python, without its header."""
    found = KafkaFetchRequest[version].decode(message)
    replica = found.replica_id
    if version >= 15:
        has_state = found.tags is not None and "replica_state" in found.tags
        replica = found.replica_state.replica_id if has_state else -1
    return FetchRequest(
        found.max_wait_ms,
        found.min_bytes,
        found.max_bytes,
        found.isolation_level,
        found.session_id if version >= 7 else 0,
        found.session_epoch if version >= 7 else -1,
        [
            FetchPartition(
                topic_of(topic, version),
                each.partition,
                each.current_leader_epoch if version >= 9 else -1,
                each.fetch_offset,
                each.last_fetched_epoch if version >= 12 else -1,
                each.log_start_offset if version >= 5 else -1,
                each.partition_max_bytes,
            )
            for topic in found.topics
            for each in topic.partitions
        ],
        [
            ForgottenTopic(topic_of(each, version), tuple(each.partitions))
            for each in (found.forgotten_topics_data if version >= 7 else ())
        ],
        found.rack_id if version >= 11 else "",
        replica,
    )


def told(structure, name: str, *fields: str) -> tuple[int, int] | None:
    """Return the value of a tagged field, if present."""
    if not structure.tags or name not in structure.tags:
        return None
    value = getattr(structure, name)
    first, second = (getattr(value, field) for field in fields)
    return first, second


def their_answer(version: int, answer: bytes) -> FetchResponse:
    """Read a response with kafka-python."""
    found = KafkaFetchResponse[version].decode(answer, header=True)
    return FetchResponse(
        found.throttle_time_ms,
        found.error_code if version >= 7 else 0,
        found.session_id if version >= 7 else 0,
        [their_partition(version, topic, each) for topic in found.responses for each in topic.partitions],
        [
            NodeEndpoint(each.node_id, each.host, each.port, each.rack)
            for each in (found.node_endpoints if found.tags and "node_endpoints" in found.tags else ())
        ],
    )


def their_partition(version: int, topic, each) -> FetchedPartition:
    return FetchedPartition(
        topic_of(topic, version),
        each.partition_index,
        each.error_code,
        each.high_watermark,
        each.last_stable_offset,
        each.log_start_offset if version >= 5 else -1,
        each.aborted_transactions
        if each.aborted_transactions is None
        else [(one.producer_id, one.first_offset) for one in each.aborted_transactions],
        each.preferred_read_replica if version >= 11 else -1,
        [bytes(each.records)] if each.records else [],
        told(each, "diverging_epoch", "epoch", "end_offset"),
        told(each, "current_leader", "leader_id", "leader_epoch"),
    )


def whole(partitions: Iterable[FetchedPartition]) -> list[FetchedPartition]:
    """Return the partitions with their records joined, as when read."""
    return [each._replace(records=[joined(each.records)] if each.records else []) for each in partitions]


def head(version: int, client_id: bytes | None) -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", 1, version, 77) + name + (b"\0" if version >= 12 else b"")


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), client_id=st.none() | st.binary(max_size=40))
def test_a_request_is_read_as_kafka_python_reads_it(version: int, data, client_id: bytes | None):
    drawn = data.draw(messages(Api.FETCH, version, "request"))
    message = head(version, client_id) + body(drawn)
    assert read_fetch(read_request(message), message) == their_request(version, body(without_strange(drawn)))


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), client_id=st.none() | st.binary(max_size=40))
def test_a_request_is_written_as_kafka_python_reads_it(version: int, data, client_id: bytes | None):
    asked = data.draw(drawn_requests(version))

    message = joined(fetch_request(version, 77, client_id, asked))

    ours = head(version, client_id)
    assert message[: len(ours)] == ours
    assert their_request(version, message[len(ours) :]) == asked
    request = read_request(message)
    assert request[:4] == (Api.FETCH, version, 77, client_id)
    assert read_fetch(request, bytearray(message)) == asked


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), correlation=INT32)
def test_an_answer_is_read_as_kafka_python_reads_it(version: int, data, correlation: int):
    drawn = data.draw(messages(Api.FETCH, version))
    found = read_fetch_response(version, written(drawn, correlation))
    theirs = their_answer(version, written(without_strange(drawn), correlation))
    assert found._replace(partitions=whole(found.partitions)) == theirs


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), correlation=INT32)
def test_an_answer_is_written_as_kafka_python_reads_it(version: int, data, correlation: int):
    answer = data.draw(drawn_answers(version))
    expected = answer._replace(partitions=whole(answer.partitions))

    pieces = fetch_response(version, correlation, answer)

    assert joined(pieces)[:4] == struct.pack(">i", correlation)
    assert their_answer(version, joined(pieces)) == expected
    found = read_fetch_response(version, bytearray(joined(pieces)))
    assert found._replace(partitions=whole(found.partitions)) == expected
    for piece in (piece for each in answer.partitions for piece in each.records):
        assert any(piece is given for given in pieces), "records are not copied"


def test_records_are_read_where_they_stand():
    records = b"records" * 100
    partition = FetchedPartition("t", 0, 0, 9, 9, 0, None, -1, [records])
    answer = bytearray(joined(fetch_response(12, 1, FetchResponse(0, 0, 0, [partition]))))
    (view,) = read_fetch_response(12, answer).partitions[0].records
    answer[answer.index(b"records")] = ord("R")
    assert bytes(view) == b"R" + records[1:]


def test_partitions_of_a_topic_come_together():
    each = [FetchedPartition(topic, at, 0, 9, 9, 0, None, -1, []) for at, topic in enumerate("abab")]
    answer = joined(fetch_response(4, 1, FetchResponse(0, 0, 0, each)))
    assert [(one.topic, one.partition) for one in read_fetch_response(4, answer).partitions] == [
        ("a", 0), ("a", 2), ("b", 1), ("b", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "topic"), [(12, uuid.UUID(int=7).bytes), (13, "a name")])
def test_a_topic_that_the_version_cannot_tell_is_not_written(version: int, topic: Topic):
    asked = FetchRequest(1, 1, 1, 0, 0, -1, [FetchPartition(topic, 0, -1, 0, -1, -1, 1)])
    with pytest.raises(ValueError, match="is needed here"):
        fetch_request(version, 1, None, asked)
    answer = FetchResponse(0, 0, 0, [FetchedPartition(topic, 0, 0, 9, 9, 0, None, -1, [])])
    with pytest.raises(ValueError, match="is needed here"):
        fetch_response(version, 1, answer)


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_what_is_cut_or_spoilt_ends_in_words_or_in_a_message(version: int, data):
    asked = data.draw(messages(Api.FETCH, version, "request"))
    for message in (head(version, b"c") + body(asked), written(data.draw(messages(Api.FETCH, version)), 7)):
        spoilt = bytearray(message)
        for _ in range(data.draw(st.integers(0, 3))):
            spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(spoilt[: data.draw(st.integers(0, len(spoilt)))])
        for read in (
            lambda cut=cut: read_fetch_response(version, cut),
            lambda cut=cut: read_fetch(read_request(cut)._replace(version=version), cut),
        ):
            try:
                read()
            except MessageMalformed as error:
                assert str(error)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_a_whole_message_that_lacks_its_last_byte_is_refused(version: int):
    topic = "t" if version < 13 else bytes(16)
    asked = FetchRequest(1, 1, 1, 0, 0, -1, [FetchPartition(topic, 0, -1, 0, -1, -1, 1)], [], "", 3)
    message = joined(fetch_request(version, 1, b"c", asked))
    with pytest.raises(MessageMalformed):
        read_fetch(read_request(message[:-1]), message[:-1])
    partition = FetchedPartition(topic, 0, 0, 9, 9, 0, None, -1, [b"records"], (1, 2), (3, 4))
    answer = joined(fetch_response(version, 1, FetchResponse(0, 0, 0, [partition])))
    with pytest.raises(MessageMalformed):
        read_fetch_response(version, answer[:-1])


@pytest.mark.parametrize("version", [4, 12])
def test_a_huge_count_is_refused_before_anything_is_made_of_it(version: int):
    huge = struct.pack(">i", 2**31 - 1) if version < 12 else varint(2**32 - 1)
    tags = b"\0" if version >= 12 else b""
    answer = struct.pack(">i", 1) + tags + struct.pack(">i", 0)
    answer += (struct.pack(">hi", 0, 0) if version >= 7 else b"") + huge + bytes(1000)
    with pytest.raises(MessageMalformed, match="elements goes beyond"):
        read_fetch_response(version, answer)
    message = head(version, None) + struct.pack(">iiiib", -1, 500, 1, 1, 0)
    message += (struct.pack(">ii", 0, -1) if version >= 7 else b"") + huge + bytes(1000)
    with pytest.raises(MessageMalformed, match="elements goes beyond"):
        read_fetch(read_request(message), message)
