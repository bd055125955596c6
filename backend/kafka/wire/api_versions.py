"""ApiVersions through a gateway: clients see the versions that both sides support (KIP-35, KIP-511)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from backend.kafka.wire.apis import FLEXIBLE_SINCE, RAW_SASL_HANDSHAKE, SUPPORTED_VERSIONS, Api
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


def unsupported_version(request: Request) -> bytes | None:
    """Return the response to a request of an unsupported version, with the error UNSUPPORTED_VERSION.

    ApiVersions is answered in version 0 and with its supported versions, as brokers do (KIP-511). Return None
    where no response would be readable for the client; there, brokers close the connection.
    """
    correlation = request.correlation
    if (request.api_key, request.version) == RAW_SASL_HANDSHAKE:
        return INT32.pack(correlation) + INT16.pack(_UNSUPPORTED_VERSION) + INT32.pack(0)  # no mechanisms
    if request.api_key != Api.API_VERSIONS:
        return None
    known = SUPPORTED_VERSIONS[Api.API_VERSIONS]
    return (
        INT32.pack(correlation)
        + INT16.pack(_UNSUPPORTED_VERSION)
        + INT32.pack(1)
        + _ENTRY.pack(Api.API_VERSIONS, known.first, known.last)
    )


def limited(version: int, answer: Buffer) -> Sequence[Buffer]:
    """Return a broker's response, without its size prefix, limited to the versions that the gateway supports.

    Raises MessageMalformed.
    """
    # The response header has no tagged fields in any version. A response with UNSUPPORTED_VERSION has version 0.
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
            known = SUPPORTED_VERSIONS.get(api_key)
            if known and max(first, known.first) <= min(last, known.last):
                both = _ENTRY.pack(api_key, max(first, known.first), min(last, known.last))
                kept.append(both + bytes(answer[start + _ENTRY.size : end]))
    except (struct.error, IndexError):
        raise MessageMalformed("the list of versions ends within an entry") from None
    number = as_unsigned_varint(len(kept) + 1) if flexible else INT32.pack(len(kept))
    view = memoryview(answer)
    return [view[:at], number, *kept, view[end:]]
