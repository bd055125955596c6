"""Where partitions begin and end, and where the epochs of their leaders did, as a client of one's own asks.

One version each, which brokers from Kafka 2.8 to 4.1 speak: ListOffsets 6, OffsetForLeaderEpoch 4. Source: their
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
from backend.kafka.wire.fetches import by_topic
from backend.kafka.wire.requests import request_header

LATEST, EARLIEST = -1, -2
"""In place of a time: the end of what may be read, and the first offset that is there."""

_LIST_OFFSETS_VERSION, _OFFSET_FOR_LEADER_EPOCH_VERSION = 6, 4
_CONSUMER = INT32.pack(-1)
"""In place of a follower's id."""
_TIME_ASKED, _OFFSET = struct.Struct(">iiq"), struct.Struct(">ihqqi")
_EPOCH_ASKED, _EPOCH_END = struct.Struct(">iii"), struct.Struct(">hiiq")
_LEAST_TOPIC = 3
"""Bytes of a topic without a name or partitions."""


class TimeAsked(NamedTuple):
    """The first offset at or behind a time is asked for."""

    topic: str
    partition: int
    leader_epoch: int
    """The current one, as far as who asks knows; -1 is unknown."""
    timestamp: int
    """In milliseconds; LATEST, EARLIEST."""


class OffsetFound(NamedTuple):
    """The answer to it."""

    topic: Topic
    partition: int
    error: int
    timestamp: int
    """Of the record there; -1 where no time was asked for, or nothing is there."""
    offset: int
    leader_epoch: int


class EpochAsked(NamedTuple):
    """The end of a leader's epoch is asked for."""

    topic: str
    partition: int
    leader_epoch: int
    """The current one, as far as who asks knows; -1 is unknown."""
    epoch: int


class EpochEnd(NamedTuple):
    """The answer to it: of the last epoch up to the one that was asked for; -1 both if there is none."""

    topic: Topic
    partition: int
    error: int
    epoch: int
    end_offset: int
    """The offset behind its last record."""


def list_offsets_request(
    correlation: int, client_id: bytes | None, isolation: int, asked: Iterable[TimeAsked]
) -> Sequence[Buffer]:
    """Without its size in front. Isolation 1 takes the last stable offset for the end, 0 the high watermark."""
    header = request_header(Api.LIST_OFFSETS, _LIST_OFFSETS_VERSION, correlation, client_id, flexible=True)
    return [header + _CONSUMER + isolation.to_bytes(1, "big") + _topics(_TIME_ASKED, asked)]


def read_list_offsets(message: Buffer) -> list[OffsetFound]:
    """The answer, without its size in front. Raises MessageMalformed."""
    return [OffsetFound(topic, *numbers) for topic, numbers in _answered(_OFFSET, message)]


def epoch_ends_request(correlation: int, client_id: bytes | None, asked: Iterable[EpochAsked]) -> Sequence[Buffer]:
    """OffsetForLeaderEpoch, without its size in front."""
    version = _OFFSET_FOR_LEADER_EPOCH_VERSION
    header = request_header(Api.OFFSET_FOR_LEADER_EPOCH, version, correlation, client_id, flexible=True)
    return [header + _CONSUMER + _topics(_EPOCH_ASKED, asked)]


def read_epoch_ends(message: Buffer) -> list[EpochEnd]:
    """The answer to OffsetForLeaderEpoch, without its size in front. Raises MessageMalformed."""
    return [
        EpochEnd(topic, partition, error, epoch, end_offset)
        for topic, (error, partition, epoch, end_offset) in _answered(_EPOCH_END, message)
    ]


def _topics(form: struct.Struct, asked: Iterable[TimeAsked] | Iterable[EpochAsked]) -> bytes:
    topics = by_topic([*asked])
    written = bytearray(as_length(len(topics), compact=True))
    for topic, partitions in topics.items():
        written += as_topic(topic, compact=True, by_id=False) + as_length(len(partitions), compact=True)
        for each in partitions:
            written += form.pack(*each[1:]) + NO_TAGS
        written += NO_TAGS
    return bytes(written + NO_TAGS)


def _answered(form: struct.Struct, message: Buffer) -> Iterator[tuple[Topic, tuple[int, ...]]]:
    """Topics with the numbers of each of their partitions."""
    with reading():
        at = past_tagged_fields(message, INT32.size) + INT32.size  # how long the client was held back
        topics, at = count_of_array(message, at, True, _LEAST_TOPIC)
        for _ in range(topics):
            topic, at = topic_at(message, at, compact=True, by_id=False)
            count, at = count_of_array(message, at, True, form.size)
            for _ in range(count):
                yield topic, form.unpack_from(message, at)
                at = past_tagged_fields(message, at + form.size)
            at = past_tagged_fields(message, at)
        tagged_fields(message, at, frozenset())
