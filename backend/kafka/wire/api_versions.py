"""ApiVersions through a gateway: clients are told what both the broker and the gateway speak (KIP-35, KIP-511)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from backend.kafka.wire.apis import BARE_SASL_HANDSHAKE, FLEXIBLE_SINCE, PASSED_ON, Api
from backend.kafka.wire.encoding import (
    INT16,
    INT32,
    Buffer,
    MessageMalformed,
    as_unsigned_varint,
    int16,
    length_of_bytes,
    past_tagged_fields,
)
from backend.kafka.wire.requests import Request

_UNSUPPORTED_VERSION = 35
_ENTRY = struct.Struct(">hhh")
_CORRELATION_BYTES = 4


def refused(request: Request) -> bytes | None:
    """Return the answer to a request whose version is not passed on, with the error UNSUPPORTED_VERSION.

    ApiVersions is answered in version 0 and with the versions that it may have, as brokers do (KIP-511). Return
    None where no answer has a form that the client would read: there, brokers end the connection.
    """
    correlation = request.correlation
    if (request.api_key, request.version) == BARE_SASL_HANDSHAKE:
        return INT32.pack(correlation) + INT16.pack(_UNSUPPORTED_VERSION) + INT32.pack(0)  # no mechanisms
    if request.api_key != Api.API_VERSIONS:
        return None
    known = PASSED_ON[Api.API_VERSIONS]
    return (
        INT32.pack(correlation)
        + INT16.pack(_UNSUPPORTED_VERSION)
        + INT32.pack(1)
        + _ENTRY.pack(Api.API_VERSIONS, known.first, known.last)
    )


def capped(version: int, answer: Buffer) -> Sequence[Buffer]:
    """A broker's answer, without its size in front, cut to what the gateway passes on. Raises MessageMalformed."""
    # Its header has no tagged fields in any version. An answer that refuses the version is one of version 0.
    at = _CORRELATION_BYTES + INT16.size
    flexible = version >= FLEXIBLE_SINCE[Api.API_VERSIONS]
    if int16(answer, _CORRELATION_BYTES) == _UNSUPPORTED_VERSION:
        flexible = False
    kept: list[bytes] = []
    try:
        count, end = length_of_bytes(answer, at, flexible)
        for _ in range(count):
            api_key, first, last = _ENTRY.unpack_from(answer, end)
            start, end = end, end + _ENTRY.size
            if flexible:
                end = past_tagged_fields(answer, end)
            known = PASSED_ON.get(api_key)
            if known and max(first, known.first) <= min(last, known.last):
                both = _ENTRY.pack(api_key, max(first, known.first), min(last, known.last))
                kept.append(both + bytes(answer[start + _ENTRY.size : end]))
    except (struct.error, IndexError):
        raise MessageMalformed("the list of versions ends within an entry") from None
    number = as_unsigned_varint(len(kept) + 1) if flexible else INT32.pack(len(kept))
    view = memoryview(answer)
    return [view[:at], number, *kept, view[end:]]
