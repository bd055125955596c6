"""What a gateway reads of a request: who asks what, and whether an answer will come."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from backend.kafka.wire.apis import FLEXIBLE_SINCE, Api
from backend.kafka.wire.encoding import (
    INT32,
    Buffer,
    MessageMalformed,
    int16,
    int32,
    past_tagged_fields,
    string,
)

_HEAD = struct.Struct(">hhi")
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
            at = past_tagged_fields(message, at)
    except (struct.error, IndexError):
        raise MessageMalformed(f"{len(message)} bytes are no request: its header has no end") from None
    return Request(api_key, version, correlation, client_id, at)


def is_answered(request: Request, message: Buffer) -> bool:
    """Whether the broker will answer: it does all but Produce with acks=0. Raises MessageMalformed."""
    if request.api_key != Api.PRODUCE:
        return True
    try:
        _, at = string(message, request.body, compact=request.version >= FLEXIBLE_SINCE[Api.PRODUCE])
    except IndexError:
        raise MessageMalformed("the request's transactional id has no end") from None
    return int16(message, at) != 0


def with_fetch_bounded(request: Request, message: Buffer, most_bytes: int) -> Sequence[Buffer]:
    """A Fetch request that asks for at most so many bytes, in pieces; of one batch it gets all, however large.

    Brokers take the lower of MinBytes and MaxBytes as the least that they wait for. Raises MessageMalformed.
    """
    # MaxWaitMs and MinBytes stand before it; in older versions the follower's id before those.
    at = request.body + (8 if request.version >= _WITHOUT_REPLICA_ID else 12)
    if int32(message, at) <= most_bytes:
        return [message]
    view = memoryview(message)
    return [view[:at], INT32.pack(most_bytes), view[at + INT32.size :]]
