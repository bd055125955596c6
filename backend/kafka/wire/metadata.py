"""What a client of one's own asks first: what a broker speaks, and where topics are.

One version each, which brokers from Kafka 2.8 to 4.1 speak: ApiVersions 0, Metadata 11. Source: the definitions of
ApiVersions and Metadata of Kafka 4.1; KIP-516 (topic ids).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from backend.kafka.wire.apis import Api, Versions
from backend.kafka.wire.encoding import (
    INT16,
    INT32,
    NO_TAGS,
    Buffer,
    MessageMalformed,
    as_length,
    as_string,
    count_of_array,
    int16,
    int32,
    past_tagged_fields,
    reading,
    tagged_fields,
    text,
    topic_id_at,
)
from backend.kafka.wire.requests import request_header

_METADATA_VERSION = 11
_ANY_TOPIC = bytes(16)
"""The id of a topic that is asked for by its name."""
_NOTHING_MORE = bytes(2)
"""No topic is made, no rights are told."""
_SPOKEN = struct.Struct(">hhh")
_PARTITION = struct.Struct(">hiii")
_LEAST_BROKER, _LEAST_TOPIC, _LEAST_PARTITION = 11, 25, 18
"""Bytes of each, if all within it is empty."""


class Broker(NamedTuple):
    """Where a broker is reached."""

    node: int
    host: str
    port: int
    rack: str | None


class PartitionFound(NamedTuple):
    """Who has one partition; nodes by id."""

    error: int
    partition: int
    leader_id: int
    """-1 without one."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicFound(NamedTuple):
    """One topic; without partitions where there is an error."""

    error: int
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Sequence[PartitionFound]


class Metadata(NamedTuple):
    """What a broker knows of its cluster."""

    brokers: Sequence[Broker]
    controller_id: int
    topics: Sequence[TopicFound]


def api_versions_request(correlation: int, client_id: bytes | None) -> Sequence[Buffer]:
    """Asks what a broker speaks; without its size in front."""
    return [request_header(Api.API_VERSIONS, 0, correlation, client_id, flexible=False)]


def read_api_versions(message: Buffer) -> Mapping[int, Versions]:
    """What the broker speaks, by api key. Raises MessageMalformed, also for an answer that is an error."""
    with reading():
        if error := int16(message, INT32.size):
            raise MessageMalformed(f"the broker does not tell what it speaks: error {error}")
        count, at = count_of_array(message, INT32.size + INT16.size, False, _SPOKEN.size)
        spoken = _SPOKEN.iter_unpack(memoryview(message)[at : at + count * _SPOKEN.size])
        return {api_key: Versions(first, last) for api_key, first, last in spoken}


def metadata_request(correlation: int, client_id: bytes | None, topics: Sequence[str] | None) -> Sequence[Buffer]:
    """Asks for topics, or for all of them if None; without its size in front."""
    written = bytearray(request_header(Api.METADATA, _METADATA_VERSION, correlation, client_id, flexible=True))
    written += as_length(-1 if topics is None else len(topics), compact=True)
    for name in topics or ():
        written += _ANY_TOPIC + as_string(name.encode(), compact=True) + NO_TAGS
    return [written + _NOTHING_MORE + NO_TAGS]


def read_metadata(message: Buffer) -> Metadata:
    """The answer, without its size in front. Raises MessageMalformed."""
    brokers: list[Broker] = []
    topics: list[TopicFound] = []
    with reading():
        at = past_tagged_fields(message, INT32.size) + INT32.size  # how long the client was held back
        count, at = count_of_array(message, at, True, _LEAST_BROKER)
        for _ in range(count):
            node = int32(message, at)
            host, at = text(message, at + INT32.size, compact=True)
            port = int32(message, at)
            rack, at = text(message, at + INT32.size, compact=True)
            at = past_tagged_fields(message, at)
            brokers.append(Broker(node, host or "", port, rack))
        _, at = text(message, at, compact=True)  # the cluster's id
        controller, at = int32(message, at), at + INT32.size
        count, at = count_of_array(message, at, True, _LEAST_TOPIC)
        for _ in range(count):
            topic, at = _topic(message, at)
            topics.append(topic)
        tagged_fields(message, at, frozenset())
    return Metadata(brokers, controller, topics)


def _topic(message: Buffer, at: int) -> tuple[TopicFound, int]:
    error = int16(message, at)
    name, at = text(message, at + INT16.size, compact=True)
    topic_id, at = topic_id_at(message, at)
    is_internal = bool(message[at])
    partitions = []
    count, at = count_of_array(message, at + 1, True, _LEAST_PARTITION)
    for _ in range(count):
        refused, partition, leader, epoch = _PARTITION.unpack_from(message, at)
        replicas, at = _nodes(message, at + _PARTITION.size)
        isr, at = _nodes(message, at)
        _, at = _nodes(message, at)  # replicas that are offline
        at = past_tagged_fields(message, at)
        partitions.append(PartitionFound(refused, partition, leader, epoch, replicas, isr))
    at = past_tagged_fields(message, at + INT32.size)  # rights
    return TopicFound(error, name or "", topic_id, is_internal, partitions), at


def _nodes(message: Buffer, at: int) -> tuple[tuple[int, ...], int]:
    count, at = count_of_array(message, at, True, INT32.size)
    return struct.unpack_from(f">{count}i", message, at), at + count * INT32.size
