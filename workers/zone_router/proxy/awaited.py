"""The answers that a client waits for, in the order of its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.kafka.wire.apis import PASSED_ON, Api, is_passed_on
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.requests import Request, is_answered, read_request
from workers.zone_router.frames import Frame
from workers.zone_router.proxy.answers import Rewrite

HEADER_BYTES = 512
"""A request's header is read from its first piece if that has so many; from the whole if they are not enough."""


@dataclass(slots=True)
class Awaited:
    """An answer that a client waits for."""

    request: Request
    zone: str
    """The zone of the client."""
    rewrite: Rewrite | None = None
    answer: Sequence[Buffer] | None = None
    """The answer as it is sent, once it is there and those before it are sent."""
    is_refused: bool = False
    """The connection ends in place of an answer: the request has a version that is not passed on."""


def read_frame(frame: Frame) -> tuple[Request, bool]:
    """Return a request, and whether it will be answered. Raises MessageMalformed."""
    head = frame.message(HEADER_BYTES)
    try:
        return _read(head)
    except MessageMalformed:
        if len(head) >= frame.size:
            raise
    return _read(frame.message())


def _read(message: memoryview) -> tuple[Request, bool]:
    request = read_request(message)
    # How a version looks that is not passed on, nobody knows.
    is_known = is_passed_on(request.api_key, request.version)
    return request, not is_known or is_answered(request, message)


def in_turn(first: Rewrite | None, second: Rewrite) -> Rewrite:
    """Return a rewrite that does what `first` does, if there is one, and then what `second` does."""
    if first is None:
        return second
    return lambda answer: second(memoryview(b"".join(first(answer))))


def why_refused(request: Request) -> str:
    """Return a sentence on a request whose version is not passed on."""
    known = PASSED_ON.get(request.api_key)
    name = Api(request.api_key).name if request.api_key in set(Api) else f"api key {request.api_key}"
    if known is None:
        return f"{name} is no request of clients of Kafka 4.1, so it is not passed on"
    return f"{name} of version {request.version} is not passed on; versions {known.first} to {known.last} are"
