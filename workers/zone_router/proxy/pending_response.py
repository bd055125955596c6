"""Responses that a client waits for, in the order of its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.kafka.wire.apis import SUPPORTED_VERSIONS, Api, is_supported
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.requests import Request, is_answered, read_request
from workers.zone_router.frames import Frame
from workers.zone_router.proxy.listener_place import Rewrite

HEADER_BYTES = 512
"""Least bytes of a first piece from which a header is read; if they are too few, the whole request is used."""


@dataclass(slots=True)
class PendingResponse:
    """A response that a client waits for."""

    request: Request
    zone: str
    """Zone of the client."""
    rewrite: Rewrite | None = None
    answer: Sequence[Buffer] | None = None
    """Response as it is sent, once it is available."""
    is_refused: bool = False
    """True if the connection closes instead of a response, as the version is not supported."""


def read_frame(frame: Frame) -> tuple[Request, bool]:
    """Return a request, and whether it gets a response. Raises MessageMalformed."""
    head = frame.message(HEADER_BYTES)
    try:
        return _read(head)
    except MessageMalformed:
        if len(head) >= frame.size:
            raise
    return _read(frame.message())


def _read(message: memoryview) -> tuple[Request, bool]:
    request = read_request(message)
    # The layout of unsupported versions is unknown.
    is_known = is_supported(request.api_key, request.version)
    return request, not is_known or is_answered(request, message)


def chained(first: Rewrite | None, second: Rewrite) -> Rewrite:
    """Return a rewrite that applies `first`, if given, and then `second`."""
    if first is None:
        return second
    return lambda answer: second(memoryview(b"".join(first(answer))))


def refusal_reason(request: Request) -> str:
    """Return a sentence that explains why a request's version is refused."""
    known = SUPPORTED_VERSIONS.get(request.api_key)
    name = Api(request.api_key).name if request.api_key in set(Api) else f"api key {request.api_key}"
    if known is None:
        return f"{name} is not a client request of Kafka 4.1 and is not forwarded"
    return f"{name} version {request.version} is not supported; use versions {known.first} to {known.last}"
