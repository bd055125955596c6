"""Read and write Fetch requests, versions 4 to 18; `fetch_responses` has the responses.

Fields that a version lacks are read as Kafka's defaults and not written. Other tagged fields are skipped. Source:
FetchRequest of Kafka 4.1; KIP-227 (sessions), KIP-392 (racks), KIP-516 (topic ids), KIP-595 (diverging epochs),
KIP-903 (replica state).
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
"""Least bytes of a topic without a name or partitions, with compact types."""


class FetchPartition(NamedTuple):
    """Partition of a Fetch request; -1 means unknown."""

    topic: Topic
    partition: int
    leader_epoch: int
    """Current leader epoch as known to the client."""
    fetch_offset: int
    last_fetched_epoch: int
    """Epoch of the record before fetch_offset. If the leader has another epoch there, it returns where the logs
    diverge."""
    log_start_offset: int
    max_bytes: int


class ForgottenTopic(NamedTuple):
    """Partitions to remove from a fetch session."""

    topic: Topic
    partitions: Sequence[int]


class FetchRequest(NamedTuple):
    """A Fetch request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    """Isolation level: 0 for read_uncommitted, 1 for read_committed."""
    session_id: int
    session_epoch: int
    """Session epoch; -1 without a session, 0 to open one."""
    partitions: Sequence[FetchPartition]
    forgotten: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    replica_id: int = -1
    """Id of a follower; -1 for a consumer."""


_NUMBERS = (("i", 4), ("i", 9), ("q", 4), ("i", 12), ("q", 5), ("i", 4))
"""Fields of FetchPartition after its topic: (format, first version)."""


@cache
def _form(version: int) -> tuple[struct.Struct, tuple[int, ...]]:
    """Return the format of a partition's numbers in a version, and their indexes in `_NUMBERS`."""
    kept = tuple(at for at, (_, since) in enumerate(_NUMBERS) if version >= since)
    return struct.Struct(">" + "".join(_NUMBERS[at][0] for at in kept)), kept


def read_fetch(request: Request, message: Buffer) -> FetchRequest:
    """Read a Fetch request without its size prefix. Raises MessageMalformed."""
    version, at = request.version, request.body
    flexible = version >= _FLEXIBLE
    replica, session, forgotten, rack = -1, (0, -1), list[ForgottenTopic](), ""
    with reading():
        if version < _WITH_REPLICA_STATE:
            replica, at = int32(message, at), at + INT32.size
        max_wait, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(message, at)
        at += _LIMITS.size
        if version >= _WITH_SESSIONS:
            session, at = _SESSION.unpack_from(message, at), at + _SESSION.size
        partitions, at = _partitions(version, message, at)
        if version >= _WITH_SESSIONS:
            forgotten, at = _forgotten(version, message, at)
        if version >= _WITH_RACKS:
            sent, at = text(message, at, flexible)
            rack = sent or ""
        if flexible:
            tags, at = tagged_fields(message, at, frozenset({_REPLICA_STATE_TAG}))
            if version >= _WITH_REPLICA_STATE and _REPLICA_STATE_TAG in tags:
                replica, _ = numbers_within(_REPLICA_STATE, message, tags[_REPLICA_STATE_TAG])
    return FetchRequest(
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


def _partitions(version: int, data: Buffer, at: int) -> tuple[list[FetchPartition], int]:
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    form, kept = _form(version)
    found: list[FetchPartition] = []
    topics, at = count_of_array(data, at, flexible, _LEAST_TOPIC)
    for _ in range(topics):
        topic, at = topic_at(data, at, flexible, by_id)
        count, at = count_of_array(data, at, flexible, form.size)
        for _ in range(count):
            numbers = [-1] * len(_NUMBERS)
            for place, number in zip(kept, form.unpack_from(data, at), strict=True):
                numbers[place] = number
            found.append(FetchPartition(topic, *numbers))
            at += form.size
            if flexible:
                at = past_tagged_fields(data, at)
        if flexible:
            at = past_tagged_fields(data, at)
    return found, at


def _forgotten(version: int, data: Buffer, at: int) -> tuple[list[ForgottenTopic], int]:
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    found: list[ForgottenTopic] = []
    topics, at = count_of_array(data, at, flexible, _LEAST_TOPIC)
    for _ in range(topics):
        topic, at = topic_at(data, at, flexible, by_id)
        count, at = count_of_array(data, at, flexible, INT32.size)
        found.append(ForgottenTopic(topic, struct.unpack_from(f">{count}i", data, at)))
        at += count * INT32.size
        if flexible:
            at = past_tagged_fields(data, at)
    return found, at


def fetch_request(
    version: int, correlation: int, client_id: bytes | None, request: FetchRequest
) -> Sequence[Buffer]:
    """Encode a Fetch request without its size prefix.

    Raises ValueError if topics have names where ids are needed.
    """
    flexible, by_id = version >= _FLEXIBLE, version >= _BY_TOPIC_ID
    form, kept = _form(version)
    written = bytearray(request_header(Api.FETCH, version, correlation, client_id, flexible))
    if version < _WITH_REPLICA_STATE:
        written += INT32.pack(request.replica_id)
    written += _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation)
    if version >= _WITH_SESSIONS:
        written += _SESSION.pack(request.session_id, request.session_epoch)
    tags = NO_TAGS if flexible else b""
    topics = by_topic(request.partitions)
    written += as_length(len(topics), flexible)
    for topic, partitions in topics.items():
        written += as_topic(topic, flexible, by_id) + as_length(len(partitions), flexible)
        for each in partitions:
            numbers = each[1:]
            written += form.pack(*[numbers[at] for at in kept]) + tags
        written += tags
    if version >= _WITH_SESSIONS:
        written += as_length(len(request.forgotten), flexible)
        for forgotten in request.forgotten:
            indexes = forgotten.partitions
            written += as_topic(forgotten.topic, flexible, by_id) + as_length(len(indexes), flexible)
            written += struct.pack(f">{len(indexes)}i", *indexes) + tags
    if version >= _WITH_RACKS:
        written += as_string(request.rack_id.encode(), flexible)
    if version >= _WITH_REPLICA_STATE and request.replica_id != -1:
        # The replica's epoch is unknown; the structure in the tag ends in tagged fields of its own.
        state = _REPLICA_STATE.pack(request.replica_id, -1) + NO_TAGS
        tags = as_tagged_fields({_REPLICA_STATE_TAG: state})
    return [written + tags]


class _OfTopic(Protocol):
    @property
    def topic(self) -> Topic: ...


_Partition = TypeVar("_Partition", bound=_OfTopic)


def by_topic(partitions: Iterable[_Partition]) -> Mapping[Topic, Sequence[_Partition]]:
    """Group partitions by topic; topics in the order of their first partitions."""
    found: dict[Topic, list[_Partition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found
