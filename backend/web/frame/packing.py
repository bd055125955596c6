"""Sending things packed (gzip, RFC 1952) to browsers that take that.

Only what is the same for all who get it. Pages are not: they carry keys beside what was typed, and the size of
both packed together tells about the key (BREACH).
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
"""In `Accept-Encoding`: gzip, and not with the weight 0."""
_BEGIN = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
"""A member without name or time, of no system in particular."""
_END = b"\x03\x00"
"""An empty block of deflate that is the last one."""
_KEPT = 16


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a request's `Accept-Encoding` lets the answer be packed."""
    return _TAKES_GZIP.search(accept_encoding) is not None


class PackedStreamRoute(APIRoute):
    """A route whose stream of server-sent events, if it answers one, is the same for all who watch: each event is
    packed once for all of them, and is there at once. All other answers stay as they are."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def sent(request: Request) -> Response:
            answer = await handle(request)
            if not isinstance(answer, StreamingResponse):
                return answer
            answer.headers["Vary"] = "Accept-Encoding"
            if takes_gzip(request.headers.get("accept-encoding", "")):
                answer.headers["Content-Encoding"] = "gzip"
                answer.body_iterator = packed(answer.body_iterator)
            return answer

        return sent


async def packed(parts: AsyncIterable[str | bytes | memoryview]) -> AsyncIterator[bytes]:
    """The parts as one gzip member, each of them complete as soon as it is sent."""
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
    """Whole blocks that refer to nothing before them, and so can follow whatever a watcher was sent."""
    packer = zlib.compressobj(level=zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)
