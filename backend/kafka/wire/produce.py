"""Locate the records in Produce requests, and read the offsets in responses; versions 3 to 13.

Source: ProduceRequest and ProduceResponse of Kafka 4.1; KIP-516 (topic ids), KIP-467 (record errors).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from backend.kafka.wire.apis import FLEXIBLE_SINCE, Api
from backend.kafka.wire.encoding import (
    INT16,
    INT32,
    Buffer,
    MessageMalformed,
    Topic,
    count_of_array,
    int32,
    length_of_bytes,
    past_tagged_fields,
    reading,
    string,
    tagged_fields,
    topic_at,
)
from backend.kafka.wire.requests import Request

_FLEXIBLE = FLEXIBLE_SINCE[Api.PRODUCE]
_WITH_LOG_START = 5
_WITH_RECORD_ERRORS = 8
_BY_TOPIC_ID = 13

_NUMBERS, _NUMBERS_BEFORE = struct.Struct(">ihqqq"), struct.Struct(">ihqq")
"""Fields at the head of a partition; the log start offset is the last."""
_LEAST_TOPIC, _LEAST_RECORDS, _LEAST_RECORD_ERROR = 3, 6, 6
"""Least bytes of a topic, of a partition with records, and of a record's error, if all within them is empty."""


class ProducedRecords(NamedTuple):
    """Position of one partition's records in a request."""

    topic: Topic
    partition: int
    start: int
    """Position of the first byte in the message."""
    length: int
    """Length in bytes; 0 for null too, which brokers refuse."""


class ProduceResult(NamedTuple):
    """Response to the records of one partition."""

    topic: Topic
    partition: int
    error: int
    base_offset: int
    log_append_time: int
    """Log append time in milliseconds; -1 where records keep the producer's timestamps."""
    log_start_offset: int
    """Log start offset; -1 before version 5."""


def produced_batches(request: Request, message: Buffer) -> list[ProducedRecords]:
    """Locate the records in a Produce request without its size prefix. Raises MessageMalformed."""
    flexible, by_id = request.version >= _FLEXIBLE, request.version >= _BY_TOPIC_ID
    found: list[ProducedRecords] = []
    with reading():
        _, at = string(message, request.body, flexible)  # the transactional id
        at += INT16.size + INT32.size  # acks, timeout
        topics, at = count_of_array(message, at, flexible, _LEAST_TOPIC)
        for _ in range(topics):
            topic, at = topic_at(message, at, flexible, by_id)
            count, at = count_of_array(message, at, flexible, _LEAST_RECORDS)
            for _ in range(count):
                partition = int32(message, at)
                length, start = length_of_bytes(message, at + INT32.size, flexible)
                at = start + max(0, length)
                if at > len(message):
                    raise MessageMalformed(f"the records at byte {start} go beyond the message's end")
                found.append(ProducedRecords(topic, partition, start, max(0, length)))
                if flexible:
                    at = past_tagged_fields(message, at)
            if flexible:
                at = past_tagged_fields(message, at)
        if flexible:
            tagged_fields(message, at, frozenset())
    return found


def produced_offsets(version: int, answer: Buffer) -> list[ProduceResult]:
    """Read the offsets in a Produce response without its size prefix. Raises MessageMalformed."""
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    numbers = _NUMBERS if version >= _WITH_LOG_START else _NUMBERS_BEFORE
    found: list[ProduceResult] = []
    with reading():
        at = INT32.size
        if flexible:
            at = past_tagged_fields(answer, at)
        topics, at = count_of_array(answer, at, flexible, _LEAST_TOPIC)
        for _ in range(topics):
            topic, at = topic_at(answer, at, flexible, by_id)
            count, at = count_of_array(answer, at, flexible, numbers.size)
            for _ in range(count):
                partition, error, base_offset, append_time, *log_start = numbers.unpack_from(answer, at)
                start_offset = log_start[0] if log_start else -1
                found.append(ProduceResult(topic, partition, error, base_offset, append_time, start_offset))
                at += numbers.size
                if version >= _WITH_RECORD_ERRORS:
                    at = _past_record_errors(answer, at, flexible)
                if flexible:
                    at = past_tagged_fields(answer, at)
            if flexible:
                at = past_tagged_fields(answer, at)
        int32(answer, at)  # throttle time
        if flexible:
            tagged_fields(answer, at + INT32.size, frozenset())
    return found


def _past_record_errors(answer: Buffer, at: int, flexible: bool) -> int:
    """Return the position after the errors of records and the error message."""
    count, at = count_of_array(answer, at, flexible, _LEAST_RECORD_ERROR)
    for _ in range(count):
        _, at = string(answer, at + INT32.size, flexible)
        if flexible:
            at = past_tagged_fields(answer, at)
    return string(answer, at, flexible)[1]


def produce_has_failed(version: int, answer: Buffer) -> bool:
    """Return whether a Produce response, without its size prefix, has an error. Raises MessageMalformed."""
    return any(each.error for each in produced_offsets(version, answer))
