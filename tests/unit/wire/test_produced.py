"""Positions of records in Produce requests, and offsets in responses, compared with kafka-python."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from backend.kafka.wire.apis import PRODUCE_WITH_BATCHES, SUPPORTED_VERSIONS, Api
from backend.kafka.wire.encoding import MessageMalformed, Topic
from backend.kafka.wire.produce import (
    ProduceResult,
    produce_has_failed,
    produced_batches,
    produced_offsets,
)
from backend.kafka.wire.requests import read_request, request_header
from tests.nightly import some_now
from tests.unit.wire.messages import SLOW, body, messages, varint, without_strange, written

VERSIONS = range(PRODUCE_WITH_BATCHES, SUPPORTED_VERSIONS[Api.PRODUCE].last + 1)
FIRST_FLEXIBLE = 9
EACH_VERSION = some_now("version", VERSIONS, now=(0, VERSIONS.index(FIRST_FLEXIBLE), len(VERSIONS) - 1))


def topic_of(theirs, version: int) -> Topic:
    if version < 13:
        return theirs.name
    return bytes(16) if theirs.topic_id is None else theirs.topic_id.bytes


def header(version: int) -> bytes:
    return request_header(Api.PRODUCE, version, 77, b"zone=az1", flexible=version >= 9)


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_records_are_found_where_kafka_python_reads_them(version: int, data):
    drawn = data.draw(messages(Api.PRODUCE, version, "request"))
    message = header(version) + body(drawn)

    found = produced_batches(read_request(message), message)

    theirs = ProduceRequest[version].decode(body(without_strange(drawn)))
    assert [(each.topic, each.partition, message[each.start : each.start + each.length]) for each in found] == [
        (topic_of(topic, version), each.index, bytes(each.records or b""))
        for topic in theirs.topic_data
        for each in topic.partition_data
    ]


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_offsets_are_those_that_kafka_python_reads(version: int, data):
    drawn = data.draw(messages(Api.PRODUCE, version))
    answer = written(drawn, 7)

    found = produced_offsets(version, memoryview(answer))

    theirs = ProduceResponse[version].decode(written(without_strange(drawn), 7), header=True)
    assert found == [
        ProduceResult(
            topic_of(topic, version),
            each.index,
            each.error_code,
            each.base_offset,
            each.log_append_time_ms,
            each.log_start_offset if version >= 5 else -1,
        )
        for topic in theirs.responses
        for each in topic.partition_responses
    ]
    assert produce_has_failed(version, answer) == any(each.error for each in found)


@pytest.mark.parametrize(("errors", "has_failed"), [([], False), ([0, 0], False), ([0, 6], True), ([-1], True)])
def test_one_partition_that_was_refused_is_a_failure(errors: list[int], has_failed: bool):
    partitions = b"".join(struct.pack(">ihqq", at, error, 5, -1) for at, error in enumerate(errors))
    answer = (
        struct.pack(">iih", 7, 1, 1) + b"t" + struct.pack(">i", len(errors)) + partitions + struct.pack(">i", 0)
    )
    assert produce_has_failed(3, answer) == has_failed
    with pytest.raises(MessageMalformed):
        produce_has_failed(3, answer[:-1])


@EACH_VERSION
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_what_is_cut_or_spoilt_ends_in_words_or_within_the_message(version: int, data):
    asked = header(version) + body(data.draw(messages(Api.PRODUCE, version, "request")))
    for message in (asked, written(data.draw(messages(Api.PRODUCE, version)), 7)):
        spoilt = bytearray(message)
        for _ in range(data.draw(st.integers(0, 3))):
            spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(spoilt[: data.draw(st.integers(0, len(spoilt)))])
        for read in (
            lambda cut=cut: produced_offsets(version, cut),
            lambda cut=cut: produced_batches(read_request(cut)._replace(version=version), cut),
        ):
            try:
                found = read()
            except MessageMalformed as error:
                assert str(error)
            else:
                assert all(each[2] + each[3] <= len(cut) for each in found if not isinstance(each, ProduceResult))


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_huge_count_is_refused_before_anything_is_made_of_it(version: int):
    huge = struct.pack(">i", 2**31 - 1) if version < 9 else varint(2**32 - 1)
    with pytest.raises(MessageMalformed, match="elements goes beyond"):
        produced_offsets(version, struct.pack(">i", 1) + (b"\0" if version >= 9 else b"") + huge + bytes(1000))
    told = b"\0" if version >= 9 else struct.pack(">h", -1)
    message = header(version) + told + struct.pack(">hi", -1, 30_000) + huge + bytes(1000)
    with pytest.raises(MessageMalformed, match="elements goes beyond"):
        produced_batches(read_request(message), message)
