"""What a gateway reads of a request: who asks what, and whether an answer will come."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from backend.kafka.wire.apis import FLEXIBLE_SINCE, PRODUCE_WITH_BATCHES, Api
from backend.kafka.wire.encoding import (
    INT16,
    INT32,
    NO_TAGS,
    Buffer,
    MessageMalformed,
    as_nullable_string,
    int16,
    int32,
    past_tagged_fields,
    string,
)

_HEAD = struct.Struct(">hhi")
_MOST_HEADER_TAGS = 64
"""Kafka has none in the headers of requests."""
_ALL = INT16.pack(-1)
_WITHOUT_REPLICA_ID = 15
"""Version of Fetch since which a follower's id is a tagged field (KIP-903)."""


class Request(NamedTuple):
    """The header of a request, versions 1 and 2, which begin alike."""

    api_key: int
    version: int
    correlation: int
    client_id: bytes | None
    body: int
    """The byte at which its body begins."""


def read_request(message: Buffer) -> Request:
    """Of a request without its size in front. Raises MessageMalformed."""
    try:
        api_key, version, correlation = _HEAD.unpack_from(message)
        client_id, at = string(message, _HEAD.size, compact=False)
        since = FLEXIBLE_SINCE.get(api_key)
        if since is not None and version >= since:
            at = past_tagged_fields(message, at, _MOST_HEADER_TAGS)
    except (struct.error, IndexError):
        raise MessageMalformed(f"{len(message)} bytes are no request: its header has no end") from None
    return Request(api_key, version, correlation, client_id, at)


def request_header(api_key: int, version: int, correlation: int, client_id: bytes | None, flexible: bool) -> bytes:
    """Of a request in a flexible version (KIP-482) or in one before; without a size in front."""
    name = as_nullable_string(client_id, compact=False)
    return _HEAD.pack(api_key, version, correlation) + name + (NO_TAGS if flexible else b"")


def is_answered(request: Request, message: Buffer) -> bool:
    """Whether the broker will answer: it does all but Produce with acks=0. Raises MessageMalformed."""
    return request.api_key != Api.PRODUCE or int16(message, _acks_at(request, message)) != 0


def with_all_acks(request: Request, message: Buffer) -> Sequence[Buffer]:
    """A Produce request that waits for all replicas in sync, whatever it did before, in pieces of the same length.

    Raises MessageMalformed.
    """
    at = _acks_at(request, message)
    view = memoryview(message)
    return [view[:at], _ALL, view[at + len(_ALL) :]]


def _acks_at(request: Request, message: Buffer) -> int:
    """Return the byte of a Produce request at which its acks are: behind its transactional id, if it has one."""
    if request.version < PRODUCE_WITH_BATCHES:
        return request.body
    return _string(message, request.body, compact=request.version >= FLEXIBLE_SINCE[Api.PRODUCE])[1]


def _string(message: Buffer, at: int, compact: bool = True) -> tuple[bytes | None, int]:
    try:
        return string(message, at, compact)
    except IndexError:
        raise MessageMalformed(f"the string at byte {at} has no end") from None


def with_fetch_bounded(request: Request, message: Buffer, most_bytes: int) -> Sequence[Buffer]:
    """A Fetch or ShareFetch request that asks for at most so many bytes, in pieces.

    Of one batch it gets all, however large. Brokers take the lower of MinBytes and MaxBytes as the least that they
    wait for. Raises MessageMalformed.
    """
    at = request.body
    if request.api_key == Api.SHARE_FETCH:
        for _ in range(2):  # the group, the member
            _, at = _string(message, at)
        at += INT32.size  # the session's epoch
    elif request.version < _WITHOUT_REPLICA_ID:
        at += INT32.size  # the follower's id
    at += 2 * INT32.size  # MaxWaitMs, MinBytes
    if int32(message, at) <= most_bytes:
        return [message]
    view = memoryview(message)
    return [view[:at], INT32.pack(most_bytes), view[at + INT32.size :]]
