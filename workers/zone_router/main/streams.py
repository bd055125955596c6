"""A client's stream at a main: its connection to the broker, and its outstanding requests.

Each stream has its own connection, as its client would have: brokers process one request of a connection at a
time.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from backend.kafka.wire.endpoints import Address
from workers.zone_router.connections import Connection
from workers.zone_router.formats.bulk import Place
from workers.zone_router.formats.route_messages import Route
from workers.zone_router.frames import FrameRefused, Frames
from workers.zone_router.main.forwarded_batches import ForwardedRequest
from workers.zone_router.main.in_order import InOrder

_MOST_ANSWER_BYTES = 2**31 - 1
_CONNECT_SECONDS = 5.0
_SIZE = struct.Struct(">i")


@dataclass
class ActiveRoute:
    """A Route whose part is being read, or whose entries were forwarded to the broker."""

    route: Route
    part: asyncio.Task[memoryview | str]
    """The part, or the reason why it cannot be read."""
    unanswered: int = 0
    is_forwarded: bool = False


@dataclass
class Stream:
    """Stream of one client through one proxy."""

    turn: int = 0
    next: int = 0
    broker: StreamBroker | None = None
    is_broken: bool = False
    waiting: deque[tuple[Place, ActiveRoute, ForwardedRequest | None]] = field(default_factory=deque)
    """Entries that the broker has not answered, in order."""
    answers: InOrder = field(default_factory=InOrder)


class _Proxy(Protocol):
    def answered(self, stream: Stream, message: memoryview) -> None: ...
    def broker_gone(self, number: int, stream: Stream, broker: StreamBroker) -> None: ...
    def broker_lost(self, number: int, stream: Stream, why: str) -> None: ...


class StreamBroker(Connection):
    """A stream's connection to the broker, opened when first needed."""

    def __init__(self, proxy: _Proxy, number: int, stream: Stream, address: Address | None) -> None:
        super().__init__()
        self._proxy, self._number, self._stream, self._address = proxy, number, stream, address
        self._frames = Frames(_MOST_ANSWER_BYTES)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def send(self, message: memoryview) -> None:
        self.write([_SIZE.pack(len(message)), message])

    def close(self) -> None:
        self._connecting.cancel()
        super().close()

    async def _connect(self) -> None:
        try:
            if self._address is None:
                raise OSError("the broker is not in the cluster's metadata")
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self, *self._address)
        except Exception as error:  # noqa: BLE001 - resolvers raise various errors for invalid names
            self._proxy.broker_lost(
                self._number, self._stream, f"the broker is unreachable: {error or 'no response'}"
            )

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if not self._stream.waiting:
                    raise FrameRefused("a response without a request")
                self._proxy.answered(self._stream, frame.message())
        except FrameRefused as error:
            self._proxy.broker_lost(self._number, self._stream, f"the broker sent an invalid response: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy.broker_gone(self._number, self._stream, self)
