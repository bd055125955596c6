"""The router's own requests and their responses, compared with kafka-python."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from backend.kafka.wire.apis import Api, Versions
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.metadata import (
    Broker,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
    api_versions_request,
    metadata_request,
    read_api_versions,
    read_metadata,
)
from backend.kafka.wire.offsets import (
    EARLIEST,
    LATEST,
    EpochEnd,
    EpochEndQuery,
    ListedOffset,
    OffsetQuery,
    epoch_ends_request,
    list_offsets_request,
    read_epoch_ends,
    read_list_offsets,
)
from tests.unit.wire.messages import (
    INT32,
    INT64,
    SLOW,
    TEXT,
    by_topic,
    joined,
    messages,
    varint,
    without_strange,
    written,
)

CLIENT = st.none() | st.binary(max_size=40)
READERS: dict[Api, tuple[int, Callable[[Buffer], Any]]] = {
    Api.API_VERSIONS: (0, read_api_versions),
    Api.METADATA: (11, read_metadata),
    Api.LIST_OFFSETS: (6, read_list_offsets),
    Api.OFFSET_FOR_LEADER_EPOCH: (4, read_epoch_ends),
}


def asked_in(kind: type, pieces, version: int, client_id: bytes | None):
    """Read a request with kafka-python, after its expected header."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    head = struct.pack(">hhi", kind.API_KEY, version, 77) + name + (b"\0" if version else b"")
    message = joined(pieces)
    assert message[: len(head)] == head
    found = kind[version].decode(message[len(head) :])
    assert found.encode() == message[len(head) :]
    return found


@given(CLIENT)
def test_what_a_broker_speaks_is_asked(client_id: bytes | None):
    asked_in(ApiVersionsRequest, api_versions_request(77, client_id), 0, client_id)


@settings(deadline=None)
@given(client_id=CLIENT, topics=st.none() | st.lists(TEXT, max_size=4))
def test_topics_are_asked_for_by_name_and_none_is_made(client_id: bytes | None, topics: list[str] | None):
    found = asked_in(MetadataRequest, metadata_request(77, client_id, topics), 11, client_id)
    assert (found.topics if found.topics is None else [each.name for each in found.topics]) == topics
    assert not found.allow_auto_topic_creation
    assert not found.include_topic_authorized_operations


@settings(deadline=None)
@given(
    client_id=CLIENT,
    isolation=st.sampled_from([0, 1]),
    asked=st.lists(st.builds(OffsetQuery, TEXT, INT32, INT32, INT64 | st.sampled_from([LATEST, EARLIEST]))).map(
        by_topic
    ),
)
def test_offsets_are_asked_for(client_id: bytes | None, isolation: int, asked: list[OffsetQuery]):
    pieces = list_offsets_request(77, client_id, isolation, asked)
    found = asked_in(ListOffsetsRequest, pieces, 6, client_id)
    assert (found.replica_id, found.isolation_level) == (-1, isolation)
    assert asked == [
        OffsetQuery(topic.name, each.partition_index, each.current_leader_epoch, each.timestamp)
        for topic in found.topics
        for each in topic.partitions
    ]


@settings(deadline=None)
@given(client_id=CLIENT, asked=st.lists(st.builds(EpochEndQuery, TEXT, INT32, INT32, INT32)).map(by_topic))
def test_ends_of_epochs_are_asked_for(client_id: bytes | None, asked: list[EpochEndQuery]):
    found = asked_in(OffsetForLeaderEpochRequest, epoch_ends_request(77, client_id, asked), 4, client_id)
    assert found.replica_id == -1
    assert asked == [
        EpochEndQuery(topic.topic, each.partition, each.current_leader_epoch, each.leader_epoch)
        for topic in found.topics
        for each in topic.partitions
    ]


@settings(deadline=None, suppress_health_check=SLOW)
@given(messages(Api.METADATA, 11), INT32)
def test_metadata_is_as_kafka_python_reads_it(drawn, correlation: int):
    theirs = MetadataResponse[11].decode(written(without_strange(drawn), correlation), header=True)
    assert read_metadata(memoryview(written(drawn, correlation))) == Metadata(
        [Broker(each.node_id, each.host, each.port, each.rack) for each in theirs.brokers],
        theirs.controller_id,
        [
            TopicMetadata(
                topic.error_code,
                topic.name,
                bytes(16) if topic.topic_id is None else topic.topic_id.bytes,
                topic.is_internal,
                [
                    PartitionMetadata(
                        each.error_code,
                        each.partition_index,
                        each.leader_id,
                        each.leader_epoch,
                        tuple(each.replica_nodes),
                        tuple(each.isr_nodes),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in theirs.topics
        ],
    )


@settings(deadline=None, suppress_health_check=SLOW)
@given(messages(Api.LIST_OFFSETS, 6), INT32)
def test_offsets_are_as_kafka_python_reads_them(drawn, correlation: int):
    theirs = ListOffsetsResponse[6].decode(written(without_strange(drawn), correlation), header=True)
    assert read_list_offsets(written(drawn, correlation)) == [
        ListedOffset(
            topic.name, each.partition_index, each.error_code, each.timestamp, each.offset, each.leader_epoch
        )
        for topic in theirs.topics
        for each in topic.partitions
    ]


@settings(deadline=None, suppress_health_check=SLOW)
@given(messages(Api.OFFSET_FOR_LEADER_EPOCH, 4), INT32)
def test_ends_of_epochs_are_as_kafka_python_reads_them(drawn, correlation: int):
    theirs = OffsetForLeaderEpochResponse[4].decode(written(without_strange(drawn), correlation), header=True)
    assert read_epoch_ends(written(drawn, correlation)) == [
        EpochEnd(topic.topic, each.partition, each.error_code, each.leader_epoch, each.end_offset)
        for topic in theirs.topics
        for each in topic.partitions
    ]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 20), st.integers(0, 20)), max_size=100))
def test_what_a_broker_speaks_is_as_kafka_python_reads_it(entries: list[tuple[int, int, int]]):
    answer = struct.pack(">ihi", 7, 0, len(entries)) + b"".join(struct.pack(">hhh", *each) for each in entries)
    theirs = ApiVersionsResponse[0].decode(answer, header=True)
    assert read_api_versions(answer) == {
        each.api_key: Versions(each.min_version, each.max_version) for each in theirs.api_keys
    }


def test_a_broker_that_refuses_to_tell_what_it_speaks_is_an_error():
    with pytest.raises(MessageMalformed, match="error 35"):
        read_api_versions(struct.pack(">ihi", 7, 35, 1) + struct.pack(">hhh", 18, 0, 4))


@pytest.mark.parametrize("api", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_what_is_cut_or_spoilt_ends_in_words_or_in_an_answer(api: Api, data):
    version, read = READERS[api]
    whole = written(data.draw(messages(api, version)), 7, header_is_flexible=version > 0)
    spoilt = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(spoilt[: data.draw(st.integers(0, len(spoilt)))])
    try:
        read(cut)
    except MessageMalformed as error:
        assert str(error)
    with pytest.raises(MessageMalformed):
        read(whole[:-1])


@pytest.mark.parametrize("api", READERS)
def test_a_huge_count_is_refused_before_anything_is_made_of_it(api: Api):
    version, read = READERS[api]
    # The correlation id is followed by an error, or by tags and the throttle time.
    head = (
        struct.pack(">ihi", 7, 0, 2**31 - 1) if not version else struct.pack(">ibi", 7, 0, 0) + varint(2**32 - 1)
    )
    with pytest.raises(MessageMalformed, match="elements goes beyond"):
        read(head + bytes(1000))
