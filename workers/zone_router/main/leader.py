"""A main's own connection to its broker, with responses in the order of requests."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Sequence

from backend.kafka.wire.encoding import Buffer
from backend.kafka.wire.endpoints import Address
from workers.zone_router.connections import Connection
from workers.zone_router.frames import FrameRefused, Frames

CLIENT_ID = b"treeline-zone-router"
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_MOST_ANSWER_BYTES = 2**31 - 1
_CORRELATION = slice(4, 8)
"""Position of the correlation id in a request; responses begin with it."""
_SIZE = struct.Struct(">i")


class LeaderLost(Exception):
    """The broker is unreachable, does not respond, or sent a wrong response."""


class Leader(Connection):
    """Connection to the broker, created by `connected`."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = Frames(_MOST_ANSWER_BYTES)
        self._owed: deque[tuple[bytes, asyncio.Future[memoryview]]] = deque()

    async def ask(self, message: Sequence[Buffer]) -> memoryview:
        """Send a request and return its response, both without their sizes. Raises LeaderLost."""
        if not self.is_open:
            raise LeaderLost("the broker closed the connection")
        answered: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._owed.append((bytes(message[0][_CORRELATION]), answered))
        self.write([_SIZE.pack(sum(map(len, message))), *message])
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answered
        except TimeoutError:
            self.close()
            raise LeaderLost(f"the broker did not respond within {_ANSWER_SECONDS:.0f} s") from None

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._answered(frame.message())
        except FrameRefused as error:
            self._lose(f"the broker sent an invalid response: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose("the broker closed the connection")

    def _answered(self, message: memoryview) -> None:
        if not self._owed or message[:4] != self._owed[0][0]:
            raise FrameRefused("a response without a request")
        _, answered = self._owed.popleft()
        if not answered.done():
            answered.set_result(message)

    def _lose(self, why: str) -> None:
        for _, answered in self._owed:
            if not answered.done():
                answered.set_exception(LeaderLost(why))
        self._owed.clear()


async def connected(address: Address | None) -> Leader:
    """Open a connection. Raises LeaderLost."""
    if address is None:
        raise LeaderLost("the broker is not in the cluster's metadata")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, leader = await asyncio.get_running_loop().create_connection(Leader, *address)
            return leader
    except Exception as error:  # noqa: BLE001 - resolvers raise various errors for invalid names
        raise LeaderLost(f"the broker is unreachable: {error or 'no response'}") from None
