"""Request headers, and the fields of Produce and Fetch that a gateway changes."""

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
"""Most tagged fields in a request header; Kafka itself sends none."""
_ALL = INT16.pack(-1)
_WITHOUT_REPLICA_ID = 15
"""First version of Fetch with the follower's id in a tagged field (KIP-903)."""


class Request(NamedTuple):
    """Request header; versions 1 and 2 begin alike."""

    api_key: int
    version: int
    correlation: int
    client_id: bytes | None
    body: int
    """Position of the body's first byte."""


def read_request(message: Buffer) -> Request:
    """Read the header of a request without its size prefix. Raises MessageMalformed."""
    try:
        api_key, version, correlation = _HEAD.unpack_from(message)
        client_id, at = string(message, _HEAD.size, compact=False)
        since = FLEXIBLE_SINCE.get(api_key)
        if since is not None and version >= since:
            at = past_tagged_fields(message, at, _MOST_HEADER_TAGS)
    except (struct.error, IndexError):
        raise MessageMalformed(f"{len(message)} bytes are not a request: the header is incomplete") from None
    return Request(api_key, version, correlation, client_id, at)


def request_header(api_key: int, version: int, correlation: int, client_id: bytes | None, flexible: bool) -> bytes:
    """Encode a request header without the size prefix; `flexible` for versions with compact types (KIP-482)."""
    name = as_nullable_string(client_id, compact=False)
    return _HEAD.pack(api_key, version, correlation) + name + (NO_TAGS if flexible else b"")


def is_answered(request: Request, message: Buffer) -> bool:
    """Return whether the broker will respond: it does to all requests but Produce with acks=0.

    Raises MessageMalformed.
    """
    return request.api_key != Api.PRODUCE or int16(message, _acks_at(request, message)) != 0


def with_all_acks(request: Request, message: Buffer) -> Sequence[Buffer]:
    """Return a Produce request with acks=-1 (all in-sync replicas), in pieces of the same total length.

    Raises MessageMalformed.
    """
    at = _acks_at(request, message)
    view = memoryview(message)
    return [view[:at], _ALL, view[at + len(_ALL) :]]


def _acks_at(request: Request, message: Buffer) -> int:
    """Return the position of acks in a Produce request: after the transactional id, if the version has one."""
    if request.version < PRODUCE_WITH_BATCHES:
        return request.body
    return _string(message, request.body, compact=request.version >= FLEXIBLE_SINCE[Api.PRODUCE])[1]


def _string(message: Buffer, at: int, compact: bool = True) -> tuple[bytes | None, int]:
    try:
        return string(message, at, compact)
    except IndexError:
        raise MessageMalformed(f"the string at byte {at} has no end") from None


def with_fetch_bounded(request: Request, message: Buffer, most_bytes: int) -> Sequence[Buffer]:
    """Return a Fetch or ShareFetch request for at most `most_bytes`, in pieces.

    A single larger batch is still returned whole. Brokers use the lower of MinBytes and MaxBytes as the minimum to
    wait for. Raises MessageMalformed.
    """
    at = request.body
    if request.api_key == Api.SHARE_FETCH:
        for _ in range(2):  # group id, member id
            _, at = _string(message, at)
        at += INT32.size  # session epoch
    elif request.version < _WITHOUT_REPLICA_ID:
        at += INT32.size  # replica id
    at += 2 * INT32.size  # MaxWaitMs, MinBytes
    if int32(message, at) <= most_bytes:
        return [message]
    view = memoryview(message)
    return [view[:at], INT32.pack(most_bytes), view[at + INT32.size :]]
