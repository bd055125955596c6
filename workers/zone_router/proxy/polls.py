"""A proxy's connection to a main for polling its progress."""

from __future__ import annotations

import asyncio

from workers.zone_router.connections import Connection
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.route_messages import (
    VERSION,
    Hello,
    Message,
    Poll,
    RouteMessageMalformed,
    Snapshot,
    encoded,
    read,
)
from workers.zone_router.frames import FrameRefused, Frames
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
"""Timeout of a poll in seconds; mains answer within five."""
_MOST_MESSAGE_BYTES = 256 * 1024 * 1024


class MainLost(Exception):
    """The main is unreachable or sent an invalid message."""


class Polls(Connection):
    """Connection for polls, one after the other."""

    def __init__(self, node: int, main: Main, at: MainAt, traffic: Traffic) -> None:
        super().__init__()
        self._node, self._main, self._at, self._traffic = node, main, at, traffic
        self._frames = Frames(_MOST_MESSAGE_BYTES)
        self._outstanding: asyncio.Future[Snapshot] | None = None

    async def connect(self) -> None:
        """Connect. Raises MainLost."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self, *self._at.address)
        except Exception as error:  # noqa: BLE001 - resolvers raise various errors for invalid names
            raise MainLost(f"main {self._main} is unreachable: {error or 'no response'}") from None
        self._send(Hello(VERSION, self._node, self._main[1], self._main[0]))

    async def poll(self) -> Snapshot:
        """Return the changes since the last poll; wait until there are any. Raises MainLost."""
        if not self.is_open:
            raise MainLost(f"main {self._main} closed the connection")
        self._outstanding = asyncio.get_running_loop().create_future()
        self._send(Poll())
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._outstanding
        except TimeoutError:
            raise MainLost(f"main {self._main} did not respond within {_ANSWER_SECONDS:.0f} s") from None

    def _send(self, message: Message) -> None:
        pieces = encoded(message)
        self._traffic.route_message(self._traffic.zone, self._at.zone, sum(map(len, pieces)))
        self.write(pieces)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._traffic.route_message(self._at.zone, self._traffic.zone, frame.size + 4)
                message = read(frame.message())
                if not isinstance(message, Snapshot) or self._outstanding is None or self._outstanding.done():
                    raise RouteMessageMalformed(f"{type(message).__name__} without a poll")
                self._outstanding.set_result(message)
        except (FrameRefused, RouteMessageMalformed) as error:
            self._lose(f"main {self._main} sent an invalid snapshot: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"main {self._main} closed the connection")

    def _lose(self, why: str) -> None:
        if self._outstanding and not self._outstanding.done():
            self._outstanding.set_exception(MainLost(why))
