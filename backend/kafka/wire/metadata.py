"""ApiVersions and Metadata for the router's own connections to brokers.

One version each, supported by brokers from Kafka 2.8 to 4.1: ApiVersions 0, Metadata 11. Source: the definitions
of ApiVersions and Metadata of Kafka 4.1; KIP-516 (topic ids).
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
"""Topic id in a request for a topic by name."""
_NO_FLAGS = bytes(2)
"""Flags: do not create topics, do not return authorized operations."""
_SPOKEN = struct.Struct(">hhh")
_PARTITION = struct.Struct(">hiii")
_LEAST_BROKER, _LEAST_TOPIC, _LEAST_PARTITION = 11, 25, 18
"""Least bytes of each, if all within it is empty."""


class Broker(NamedTuple):
    """Id, address and rack of a broker."""

    node: int
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """Leader and replicas of a partition, as broker ids."""

    error: int
    partition: int
    leader_id: int
    """Id of the leader; -1 without one."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """Metadata of a topic; without partitions where there is an error."""

    error: int
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Sequence[PartitionMetadata]


class Metadata(NamedTuple):
    """Metadata of a cluster as seen by one broker."""

    brokers: Sequence[Broker]
    controller_id: int
    topics: Sequence[TopicMetadata]


def api_versions_request(correlation: int, client_id: bytes | None) -> Sequence[Buffer]:
    """Encode an ApiVersions request without its size prefix."""
    return [request_header(Api.API_VERSIONS, 0, correlation, client_id, flexible=False)]


def read_api_versions(message: Buffer) -> Mapping[int, Versions]:
    """Return the versions that the broker supports, by api key.

    Raises MessageMalformed, also for an error response.
    """
    with reading():
        if error := int16(message, INT32.size):
            raise MessageMalformed(f"the broker refuses ApiVersions with error {error}")
        count, at = count_of_array(message, INT32.size + INT16.size, False, _SPOKEN.size)
        spoken = _SPOKEN.iter_unpack(memoryview(message)[at : at + count * _SPOKEN.size])
        return {api_key: Versions(first, last) for api_key, first, last in spoken}


def metadata_request(correlation: int, client_id: bytes | None, topics: Sequence[str] | None) -> Sequence[Buffer]:
    """Encode a Metadata request for topics, or for all if None, without its size prefix."""
    written = bytearray(request_header(Api.METADATA, _METADATA_VERSION, correlation, client_id, flexible=True))
    written += as_length(-1 if topics is None else len(topics), compact=True)
    for name in topics or ():
        written += _ANY_TOPIC + as_string(name.encode(), compact=True) + NO_TAGS
    return [written + _NO_FLAGS + NO_TAGS]


def read_metadata(message: Buffer) -> Metadata:
    """Read a Metadata response without its size prefix. Raises MessageMalformed."""
    brokers: list[Broker] = []
    topics: list[TopicMetadata] = []
    with reading():
        at = past_tagged_fields(message, INT32.size) + INT32.size  # throttle time
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


def _topic(message: Buffer, at: int) -> tuple[TopicMetadata, int]:
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
        _, at = _nodes(message, at)  # offline replicas
        at = past_tagged_fields(message, at)
        partitions.append(PartitionMetadata(refused, partition, leader, epoch, replicas, isr))
    at = past_tagged_fields(message, at + INT32.size)  # authorized operations
    return TopicMetadata(error, name or "", topic_id, is_internal, partitions), at


def _nodes(message: Buffer, at: int) -> tuple[tuple[int, ...], int]:
    count, at = count_of_array(message, at, True, INT32.size)
    return struct.unpack_from(f">{count}i", message, at), at + count * INT32.size
