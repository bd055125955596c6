"""Compression (gzip, RFC 1952) for browsers that accept it.

Only content that is the same for all viewers. Pages are excluded: they carry keys beside what the user typed, and
the compressed size of both together reveals the key (BREACH).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import lru_cache

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute

_TAKES_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:$|,|;\s*q=(?!0(?:\.0*)?\s*(?:,|$)))", re.IGNORECASE)
"""Matches gzip in `Accept-Encoding`, unless its weight is 0."""
_BEGIN = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
"""Header of a gzip member without name or time, of an unspecified system."""
_END = b"\x03\x00"
"""Empty final block of deflate."""
_KEPT = 16


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a request's `Accept-Encoding` allows a compressed answer."""
    return _TAKES_GZIP.search(accept_encoding) is not None


class CompressedStreamRoute(APIRoute):
    """A route whose stream of server-sent events is the same for all viewers.

    Each event is compressed once for all of them, and sent at once. Other answers of the route stay as they are.
    """

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def sent(request: Request) -> Response:
            answer = await handle(request)
            if not isinstance(answer, StreamingResponse):
                return answer
            answer.headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request.headers.get("accept-encoding", "")):
                answer.headers["Content-Encoding"] = "gzip"
                answer.body_iterator = compressed(answer.body_iterator)
            return answer

        return sent


async def compressed(parts: AsyncIterable[str | bytes | memoryview]) -> AsyncIterator[bytes]:
    """Yield the parts as one gzip member, each of them complete as soon as it is sent."""
    check = size = 0
    begin = _BEGIN
    async for part in parts:
        data = part.encode() if isinstance(part, str) else bytes(part)
        check, size = zlib.crc32(data, check), size + len(data)
        yield begin + _deflated(data)
        begin = b""
    yield begin + _END + struct.pack("<II", check, size & 0xFFFFFFFF)


@lru_cache(_KEPT)
def _deflated(data: bytes) -> bytes:
    """Compress into whole blocks without references to earlier data, which can follow anything sent before."""
    packer = zlib.compressobj(level=zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)
