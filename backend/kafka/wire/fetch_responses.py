"""Read and write Fetch responses, versions 4 to 18; records are views, never copied.

Fields that a version lacks are read as Kafka's defaults and not written. Other tagged fields are skipped. Source:
FetchResponse of Kafka 4.1; KIP-392 (preferred replicas), KIP-516 (topic ids), KIP-595 (diverging epochs), KIP-951
(leaders' addresses).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from backend.kafka.wire.apis import FLEXIBLE_SINCE, Api
from backend.kafka.wire.encoding import (
    INT32,
    NO_TAGS,
    Buffer,
    MessageMalformed,
    Place,
    Topic,
    as_length,
    as_nullable_string,
    as_string,
    as_tagged_fields,
    as_topic,
    count_of_array,
    int32,
    length_of_bytes,
    numbers_within,
    past_tagged_fields,
    reading,
    tagged_fields,
    text,
    topic_at,
)
from backend.kafka.wire.fetch_requests import by_topic

_FLEXIBLE = FLEXIBLE_SINCE[Api.FETCH]
_WITH_LOG_START = 5
_WITH_SESSIONS = 7
_WITH_PREFERRED_REPLICA = 11
_BY_TOPIC_ID = 13
_WITH_ENDPOINTS = 16

_SESSION = struct.Struct(">hi")
_NUMBERS, _NUMBERS_BEFORE = struct.Struct(">ihqqq"), struct.Struct(">ihqq")
"""Fields at the head of a partition; the log start offset is the last."""
_ABORTED = struct.Struct(">qq")
_DIVERGING_TAG, _DIVERGING = 0, struct.Struct(">iq")
_LEADER_TAG, _LEADER = 1, struct.Struct(">ii")
_ENDPOINTS_TAG = 0
_OF_PARTITION, _OF_ANSWER = frozenset({_DIVERGING_TAG, _LEADER_TAG}), frozenset({_ENDPOINTS_TAG})
_LEAST_TOPIC, _LEAST_ENDPOINT = 3, 11
"""Least bytes of one without names or partitions, with compact types."""


class FetchedPartition(NamedTuple):
    """Response for one partition."""

    topic: Topic
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    """Aborted transactions as (producer id, first offset); None for read_uncommitted."""
    preferred_replica: int
    records: Sequence[Buffer]
    """Consecutive pieces of the records; empty both for no records and for null, which clients treat alike."""
    diverging_epoch: tuple[int, int] | None = None
    """Diverging epoch as (epoch, its end offset)."""
    current_leader: tuple[int, int] | None = None
    """Current leader as (node id, epoch)."""


class NodeEndpoint(NamedTuple):
    """Address of a new leader."""

    node: int
    host: str
    port: int
    rack: str | None


class FetchResponse(NamedTuple):
    """A Fetch response."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: Sequence[FetchedPartition]
    endpoints: Sequence[NodeEndpoint] = ()


class _Form(NamedTuple):
    """Format of a version."""

    flexible: bool
    by_id: bool
    numbers: struct.Struct
    with_preferred_replica: bool


@cache
def _form(version: int) -> _Form:
    return _Form(
        flexible=version >= _FLEXIBLE,
        by_id=version >= _BY_TOPIC_ID,
        numbers=_NUMBERS if version >= _WITH_LOG_START else _NUMBERS_BEFORE,
        with_preferred_replica=version >= _WITH_PREFERRED_REPLICA,
    )


def read_fetch_response(version: int, message: Buffer) -> FetchResponse:
    """Read a Fetch response without its size prefix. Raises MessageMalformed."""
    form, data = _form(version), memoryview(message)
    error, session = 0, 0
    endpoints: list[NodeEndpoint] = []
    partitions: list[FetchedPartition] = []
    with reading():
        at = INT32.size
        if form.flexible:
            at = past_tagged_fields(data, at)
        throttle_ms, at = int32(data, at), at + INT32.size
        if version >= _WITH_SESSIONS:
            (error, session), at = _SESSION.unpack_from(data, at), at + _SESSION.size
        topics, at = count_of_array(data, at, form.flexible, _LEAST_TOPIC)
        for _ in range(topics):
            topic, at = topic_at(data, at, form.flexible, form.by_id)
            count, at = count_of_array(data, at, form.flexible, form.numbers.size)
            for _ in range(count):
                partition, at = _partition(form, topic, data, at)
                partitions.append(partition)
            if form.flexible:
                at = past_tagged_fields(data, at)
        if form.flexible:
            tags, at = tagged_fields(data, at, _OF_ANSWER)
            if version >= _WITH_ENDPOINTS and _ENDPOINTS_TAG in tags:
                start, end = tags[_ENDPOINTS_TAG]
                endpoints = _endpoints(data[start:end])
    return FetchResponse(throttle_ms, error, session, partitions, endpoints)


def _partition(form: _Form, topic: Topic, data: memoryview, at: int) -> tuple[FetchedPartition, int]:
    index, error, high_watermark, stable, *log_start = form.numbers.unpack_from(data, at)
    at += form.numbers.size
    aborted, at = _aborted(data, at, form.flexible)
    preferred = -1
    if form.with_preferred_replica:
        preferred, at = int32(data, at), at + INT32.size
    length, start = length_of_bytes(data, at, form.flexible)
    at = start + max(0, length)
    if at > len(data):
        raise MessageMalformed(f"the records at byte {start} go beyond the message's end")
    diverging, leader = None, None
    if form.flexible:
        tags, at = tagged_fields(data, at, _OF_PARTITION)
        if tags:
            diverging = _pair(_DIVERGING, data, tags.get(_DIVERGING_TAG))
            leader = _pair(_LEADER, data, tags.get(_LEADER_TAG))
    fetched = FetchedPartition(
        topic,
        index,
        error,
        high_watermark,
        last_stable_offset=stable,
        log_start_offset=log_start[0] if log_start else -1,
        aborted=aborted,
        preferred_replica=preferred,
        records=[data[start : start + length]] if length > 0 else [],
        diverging_epoch=diverging,
        current_leader=leader,
    )
    return fetched, at


def _pair(form: struct.Struct, data: Buffer, place: Place | None) -> tuple[int, int] | None:
    if place is None:
        return None
    first, second = numbers_within(form, data, place)
    return first, second


def _aborted(data: memoryview, at: int, flexible: bool) -> tuple[list[tuple[int, int]] | None, int]:
    count, start = length_of_bytes(data, at, flexible)
    if count < 0:
        return None, start
    count, at = count_of_array(data, at, flexible, _ABORTED.size)
    found = []
    for _ in range(count):
        producer, first = _ABORTED.unpack_from(data, at)
        found.append((producer, first))
        at += _ABORTED.size
        if flexible:
            at = past_tagged_fields(data, at)
    return found, at


def _endpoints(data: memoryview) -> list[NodeEndpoint]:
    found = []
    count, at = count_of_array(data, 0, True, _LEAST_ENDPOINT)
    for _ in range(count):
        node, at = int32(data, at), at + INT32.size
        host, at = text(data, at, compact=True)
        port, at = int32(data, at), at + INT32.size
        rack, at = text(data, at, compact=True)
        at = past_tagged_fields(data, at)
        found.append(NodeEndpoint(node, host or "", port, rack))
    if at > len(data):
        raise MessageMalformed("the leaders' addresses go beyond their tagged field")
    return found


def fetch_response(version: int, correlation: int, answer: FetchResponse) -> Sequence[Buffer]:
    """Encode a Fetch response without its size prefix, in pieces; those with records are the ones given.

    Partitions of a topic are grouped. Raises ValueError if topics have names where ids are needed.
    """
    form = _form(version)
    tags = NO_TAGS if form.flexible else b""
    pieces: list[Buffer] = []
    written = bytearray(INT32.pack(correlation) + tags + INT32.pack(answer.throttle_ms))
    if version >= _WITH_SESSIONS:
        written += _SESSION.pack(answer.error, answer.session_id)
    topics = by_topic(answer.partitions)
    written += as_length(len(topics), form.flexible)
    for topic, partitions in topics.items():
        written += as_topic(topic, form.flexible, form.by_id) + as_length(len(partitions), form.flexible)
        for each in partitions:
            written += _before_records(form, each)
            if each.records:
                pieces += [written, *each.records]
                written = bytearray()
            if form.flexible:
                written += as_tagged_fields(_tags(each))
        written += tags
    if version >= _WITH_ENDPOINTS and answer.endpoints:
        tags = as_tagged_fields({_ENDPOINTS_TAG: _as_endpoints(answer.endpoints)})
    return [*pieces, written + tags]


def _before_records(form: _Form, each: FetchedPartition) -> bytes:
    numbers: list[int] = [*each[1:6]]
    written = form.numbers.pack(*numbers if form.numbers is _NUMBERS else numbers[:-1])
    tags = NO_TAGS if form.flexible else b""
    if each.aborted is None:
        written += as_length(-1, form.flexible)
    else:
        pairs = [_ABORTED.pack(*pair) + tags for pair in each.aborted]
        written += as_length(len(pairs), form.flexible) + b"".join(pairs)
    if form.with_preferred_replica:
        written += INT32.pack(each.preferred_replica)
    return written + as_length(sum(map(len, each.records)), form.flexible)


def _tags(each: FetchedPartition) -> dict[int, bytes]:
    """Return the tagged fields of a partition; structures within them end in tagged fields of their own."""
    tags = {}
    if each.diverging_epoch is not None:
        tags[_DIVERGING_TAG] = _DIVERGING.pack(*each.diverging_epoch) + NO_TAGS
    if each.current_leader is not None:
        tags[_LEADER_TAG] = _LEADER.pack(*each.current_leader) + NO_TAGS
    return tags


def _as_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    written = as_length(len(endpoints), compact=True)
    for node, host, port, rack in endpoints:
        written += INT32.pack(node) + as_string(host.encode(), compact=True) + INT32.pack(port)
        written += as_nullable_string(None if rack is None else rack.encode(), compact=True) + NO_TAGS
    return written
