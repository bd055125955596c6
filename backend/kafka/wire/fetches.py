"""Requests to Fetch, versions 4 to 18, read and written; `fetched` has the answers.

What a version does not have is read as Kafka's default, and not written. Tagged fields that are not named here are
skipped. Source: FetchRequest of Kafka 4.1; KIP-227 (sessions), KIP-392 (racks), KIP-516 (topic ids), KIP-595
(diverging epochs), KIP-903 (replica state).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeVar

from backend.kafka.wire.apis import FLEXIBLE_SINCE, Api
from backend.kafka.wire.encoding import (
    INT32,
    NO_TAGS,
    Buffer,
    Topic,
    as_length,
    as_string,
    as_tagged_fields,
    as_topic,
    count_of_array,
    int32,
    numbers_within,
    past_tagged_fields,
    reading,
    tagged_fields,
    text,
    topic_at,
)
from backend.kafka.wire.requests import Request, request_header

_FLEXIBLE = FLEXIBLE_SINCE[Api.FETCH]
_WITH_SESSIONS = 7
_WITH_RACKS = 11
_BY_TOPIC_ID = 13
_WITH_REPLICA_STATE = 15
_WITH_ENDPOINTS = 16

_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_REPLICA_STATE = struct.Struct(">iq")
_REPLICA_STATE_TAG = 1
_LEAST_TOPIC = 3
"""Bytes of a topic without a name or partitions, with compact types."""


class PartitionAsked(NamedTuple):
    """What is asked of one partition; -1 is unknown."""

    topic: Topic
    partition: int
    leader_epoch: int
    """The current one, as far as who asks knows."""
    fetch_offset: int
    last_fetched_epoch: int
    """Of the record before that offset: if the leader has another one there, it tells where logs diverge."""
    log_start_offset: int
    max_bytes: int


class TopicForgotten(NamedTuple):
    """Partitions that leave a session."""

    topic: Topic
    partitions: Sequence[int]


class FetchAsked(NamedTuple):
    """A request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    """0 reads what is not committed, 1 does not."""
    session_id: int
    session_epoch: int
    """-1 without a session; 0 asks for one."""
    partitions: Sequence[PartitionAsked]
    forgotten: Sequence[TopicForgotten] = ()
    rack_id: str = ""
    replica_id: int = -1
    """Of a follower; -1 of a consumer."""


_NUMBERS = (("i", 4), ("i", 9), ("q", 4), ("i", 12), ("q", 5), ("i", 4))
"""Of PartitionAsked, behind its topic: (format, first version)."""


@cache
def _form(version: int) -> tuple[struct.Struct, tuple[int, ...]]:
    """Of the numbers that a version has of a partition; and which they are."""
    kept = tuple(at for at, (_, since) in enumerate(_NUMBERS) if version >= since)
    return struct.Struct(">" + "".join(_NUMBERS[at][0] for at in kept)), kept


def read_fetch(request: Request, message: Buffer) -> FetchAsked:
    """A request, without its size in front. Raises MessageMalformed."""
    version, at = request.version, request.body
    flexible = version >= _FLEXIBLE
    replica, session, forgotten, rack = -1, (0, -1), list[TopicForgotten](), ""
    with reading():
        if version < _WITH_REPLICA_STATE:
            replica, at = int32(message, at), at + INT32.size
        max_wait, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(message, at)
        at += _LIMITS.size
        if version >= _WITH_SESSIONS:
            session, at = _SESSION.unpack_from(message, at), at + _SESSION.size
        partitions, at = _partitions_asked(version, message, at)
        if version >= _WITH_SESSIONS:
            forgotten, at = _forgotten(version, message, at)
        if version >= _WITH_RACKS:
            told, at = text(message, at, flexible)
            rack = told or ""
        if flexible:
            tags, at = tagged_fields(message, at, frozenset({_REPLICA_STATE_TAG}))
            if version >= _WITH_REPLICA_STATE and _REPLICA_STATE_TAG in tags:
                replica, _ = numbers_within(_REPLICA_STATE, message, tags[_REPLICA_STATE_TAG])
    return FetchAsked(
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id=session[0],
        session_epoch=session[1],
        partitions=partitions,
        forgotten=forgotten,
        rack_id=rack,
        replica_id=replica,
    )


def _partitions_asked(version: int, data: Buffer, at: int) -> tuple[list[PartitionAsked], int]:
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    form, kept = _form(version)
    found: list[PartitionAsked] = []
    topics, at = count_of_array(data, at, flexible, _LEAST_TOPIC)
    for _ in range(topics):
        topic, at = topic_at(data, at, flexible, by_id)
        count, at = count_of_array(data, at, flexible, form.size)
        for _ in range(count):
            numbers = [-1] * len(_NUMBERS)
            for place, number in zip(kept, form.unpack_from(data, at), strict=True):
                numbers[place] = number
            found.append(PartitionAsked(topic, *numbers))
            at += form.size
            if flexible:
                at = past_tagged_fields(data, at)
        if flexible:
            at = past_tagged_fields(data, at)
    return found, at


def _forgotten(version: int, data: Buffer, at: int) -> tuple[list[TopicForgotten], int]:
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    found: list[TopicForgotten] = []
    topics, at = count_of_array(data, at, flexible, _LEAST_TOPIC)
    for _ in range(topics):
        topic, at = topic_at(data, at, flexible, by_id)
        count, at = count_of_array(data, at, flexible, INT32.size)
        found.append(TopicForgotten(topic, struct.unpack_from(f">{count}i", data, at)))
        at += count * INT32.size
        if flexible:
            at = past_tagged_fields(data, at)
    return found, at


def fetch_request(version: int, correlation: int, client_id: bytes | None, asked: FetchAsked) -> Sequence[Buffer]:
    """A request, without its size in front. Raises ValueError if topics have names where ids are needed."""
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    form, kept = _form(version)
    written = bytearray(request_header(Api.FETCH, version, correlation, client_id, flexible))
    if version < _WITH_REPLICA_STATE:
        written += INT32.pack(asked.replica_id)
    written += _LIMITS.pack(asked.max_wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation)
    if version >= _WITH_SESSIONS:
        written += _SESSION.pack(asked.session_id, asked.session_epoch)
    tags = NO_TAGS if flexible else b""
    topics = by_topic(asked.partitions)
    written += as_length(len(topics), flexible)
    for topic, partitions in topics.items():
        written += as_topic(topic, flexible, by_id) + as_length(len(partitions), flexible)
        for each in partitions:
            numbers = each[1:]
            written += form.pack(*[numbers[at] for at in kept]) + tags
        written += tags
    if version >= _WITH_SESSIONS:
        written += as_length(len(asked.forgotten), flexible)
        for forgotten in asked.forgotten:
            indexes = forgotten.partitions
            written += as_topic(forgotten.topic, flexible, by_id) + as_length(len(indexes), flexible)
            written += struct.pack(f">{len(indexes)}i", *indexes) + tags
    if version >= _WITH_RACKS:
        written += as_string(asked.rack_id.encode(), flexible)
    if version >= _WITH_REPLICA_STATE and asked.replica_id != -1:
        # Its epoch is unknown; the structure in the tag has tagged fields of its own.
        state = _REPLICA_STATE.pack(asked.replica_id, -1) + NO_TAGS
        tags = as_tagged_fields({_REPLICA_STATE_TAG: state})
    return [written + tags]


class _OfTopic(Protocol):
    @property
    def topic(self) -> Topic: ...


_Partition = TypeVar("_Partition", bound=_OfTopic)


def by_topic(partitions: Iterable[_Partition]) -> Mapping[Topic, Sequence[_Partition]]:
    """Partitions of each topic, in their order; topics in that of their first ones."""
    found: dict[Topic, list[_Partition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found
