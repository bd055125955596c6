"""A proxy's connection to one main: announces requests and receives the broker's responses."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from backend.kafka.wire.encoding import Buffer
from workers.zone_router.connections import Connection
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.route_messages import (
    VERSION,
    Answer,
    Broken,
    Done,
    Hello,
    Message,
    Refused,
    Route,
    RouteMessageMalformed,
    encoded,
    read,
)
from workers.zone_router.frames import FrameRefused, Frames
from workers.zone_router.proxy.channel import Part
from workers.zone_router.router_file import MainAt

if TYPE_CHECKING:
    from workers.zone_router.proxy.routes import Routes

_MOST_MESSAGE_BYTES = 2**31 - 1
_CONNECT_SECONDS = 5.0

_LOG = structlog.get_logger(__name__)


class MainLink(Connection):
    """Connection that the first stream to need it opens; never reused after it is lost."""

    def __init__(self, routes: Routes, main: Main, at: MainAt) -> None:
        super().__init__()
        self._routes, self._main, self._at = routes, main, at
        self._frames = Frames(_MOST_MESSAGE_BYTES)
        self._requests: dict[int, Part] = {}
        self._numbers = itertools.count(1)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())
        self._is_lost = False
        self.send(Hello(VERSION, routes.node, main[1], main[0]))

    def route(self, part: Part) -> None:
        """Announce a part to the main."""
        request = next(self._numbers)
        self._requests[request] = part
        self.send(Route(request, part.at))

    def send(self, message: Message) -> None:
        pieces = encoded(message)
        self._count(pieces, self._routes.traffic.zone, self._at.zone)
        self.write(pieces)

    def close(self) -> None:
        self._connecting.cancel()
        super().close()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self, *self._at.address)
        except Exception as error:  # noqa: BLE001 - resolvers raise various errors for invalid names
            self._lose(f"main {self._main} is unreachable: {error or 'no response'}")

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._count(frame.pieces, self._at.zone, self._routes.traffic.zone)
                self._handle(read(frame.message()))
        except (FrameRefused, RouteMessageMalformed) as error:
            self._lose(f"main {self._main} sent an invalid message: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"main {self._main} closed the connection{f': {exc}' if exc else ''}")

    def _handle(self, message: Message) -> None:
        match message:
            case Answer(place=place):
                if stream := self._routes.stream_of(place.stream):
                    stream.answered(message)
            case Refused(request=request, fenced=fenced):
                self._routes.traffic.channel.refused()
                self._routes.epoch = max(self._routes.epoch, fenced + 1)
                if part := self._requests.pop(request, None):
                    for place in part.places:
                        if stream := self._routes.stream_of(place.stream):
                            stream.refused(place)
                    self._routes.done(part)
            case Broken(stream=number, why=why):
                if stream := self._routes.stream_of(number):
                    stream.broken(why)
            case Done(request=request):
                if part := self._requests.pop(request, None):
                    self._routes.done(part)
            case _:
                raise RouteMessageMalformed(f"{type(message).__name__} is a message for mains")

    def _lose(self, why: str) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        super().close()
        _LOG.warning("zone_router.main_lost", why=why)
        self._routes.lost(self._main, why)
        parts, self._requests = list(self._requests.values()), {}
        for part in parts:
            self._routes.done(part)

    def _count(self, pieces: Sequence[Buffer], from_zone: str, to_zone: str) -> None:
        self._routes.traffic.route_message(from_zone, to_zone, sum(map(len, pieces)))
