"""ListOffsets and OffsetForLeaderEpoch for the router's own connections to brokers.

One version each, supported by brokers from Kafka 2.8 to 4.1: ListOffsets 6, OffsetForLeaderEpoch 4. Source: their
definitions of Kafka 4.1; KIP-320 (epochs for consumers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from backend.kafka.wire.apis import Api
from backend.kafka.wire.encoding import (
    INT32,
    NO_TAGS,
    Buffer,
    Topic,
    as_length,
    as_topic,
    count_of_array,
    past_tagged_fields,
    reading,
    tagged_fields,
    topic_at,
)
from backend.kafka.wire.fetch_requests import by_topic
from backend.kafka.wire.requests import request_header

LATEST, EARLIEST = -1, -2
"""Special timestamps: the end of what may be read, and the first offset."""

_LIST_OFFSETS_VERSION, _OFFSET_FOR_LEADER_EPOCH_VERSION = 6, 4
_CONSUMER = INT32.pack(-1)
"""Replica id of a consumer."""
_OFFSET_QUERY, _OFFSET = struct.Struct(">iiq"), struct.Struct(">ihqqi")
_EPOCH_QUERY, _EPOCH_END = struct.Struct(">iii"), struct.Struct(">hiiq")
_LEAST_TOPIC = 3
"""Least bytes of a topic without a name or partitions."""


class OffsetQuery(NamedTuple):
    """Query for the first offset at or after a timestamp."""

    topic: str
    partition: int
    leader_epoch: int
    """Current leader epoch as known to the client; -1 if unknown."""
    timestamp: int
    """Timestamp in milliseconds, LATEST or EARLIEST."""


class ListedOffset(NamedTuple):
    """Response to an OffsetQuery."""

    topic: Topic
    partition: int
    error: int
    timestamp: int
    """Timestamp of the record; -1 where none was asked for or no record was found."""
    offset: int
    leader_epoch: int


class EpochEndQuery(NamedTuple):
    """Query for the end of a leader epoch."""

    topic: str
    partition: int
    leader_epoch: int
    """Current leader epoch as known to the client; -1 if unknown."""
    epoch: int


class EpochEnd(NamedTuple):
    """Response to an EpochEndQuery.

    It is for the last epoch up to the one asked for; epoch and offset are -1 if there is none.
    """

    topic: Topic
    partition: int
    error: int
    epoch: int
    end_offset: int
    """Offset after the epoch's last record."""


def list_offsets_request(
    correlation: int, client_id: bytes | None, isolation: int, queries: Iterable[OffsetQuery]
) -> Sequence[Buffer]:
    """Encode a ListOffsets request without its size prefix.

    With isolation 1 the end is the last stable offset, with 0 the high watermark.
    """
    header = request_header(Api.LIST_OFFSETS, _LIST_OFFSETS_VERSION, correlation, client_id, flexible=True)
    return [header + _CONSUMER + isolation.to_bytes(1, "big") + _topics(_OFFSET_QUERY, queries)]


def read_list_offsets(message: Buffer) -> list[ListedOffset]:
    """Read a ListOffsets response without its size prefix. Raises MessageMalformed."""
    return [ListedOffset(topic, *numbers) for topic, numbers in _answered(_OFFSET, message)]


def epoch_ends_request(
    correlation: int, client_id: bytes | None, queries: Iterable[EpochEndQuery]
) -> Sequence[Buffer]:
    """Encode an OffsetForLeaderEpoch request without its size prefix."""
    version = _OFFSET_FOR_LEADER_EPOCH_VERSION
    header = request_header(Api.OFFSET_FOR_LEADER_EPOCH, version, correlation, client_id, flexible=True)
    return [header + _CONSUMER + _topics(_EPOCH_QUERY, queries)]


def read_epoch_ends(message: Buffer) -> list[EpochEnd]:
    """Read an OffsetForLeaderEpoch response without its size prefix. Raises MessageMalformed."""
    return [
        EpochEnd(topic, partition, error, epoch, end_offset)
        for topic, (error, partition, epoch, end_offset) in _answered(_EPOCH_END, message)
    ]


def _topics(form: struct.Struct, queries: Iterable[OffsetQuery] | Iterable[EpochEndQuery]) -> bytes:
    topics = by_topic([*queries])
    written = bytearray(as_length(len(topics), compact=True))
    for topic, partitions in topics.items():
        written += as_topic(topic, compact=True, by_id=False) + as_length(len(partitions), compact=True)
        for each in partitions:
            written += form.pack(*each[1:]) + NO_TAGS
        written += NO_TAGS
    return bytes(written + NO_TAGS)


def _answered(form: struct.Struct, message: Buffer) -> Iterator[tuple[Topic, tuple[int, ...]]]:
    """Yield each partition's topic and numbers."""
    with reading():
        at = past_tagged_fields(message, INT32.size) + INT32.size  # throttle time
        topics, at = count_of_array(message, at, True, _LEAST_TOPIC)
        for _ in range(topics):
            topic, at = topic_at(message, at, compact=True, by_id=False)
            count, at = count_of_array(message, at, True, form.size)
            for _ in range(count):
                yield topic, form.unpack_from(message, at)
                at = past_tagged_fields(message, at + form.size)
            at = past_tagged_fields(message, at)
        tagged_fields(message, at, frozenset())
