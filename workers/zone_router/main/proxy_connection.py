"""A proxy's connection to a main: read the announced parts, and forward their requests in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import structlog

from workers.zone_router.connections import Connection
from workers.zone_router.formats.bulk import BulkMalformed, ChannelOffset, ReadEntry
from workers.zone_router.formats.bulk import read as read_part
from workers.zone_router.formats.route_messages import (
    VERSION,
    Answer,
    Broken,
    Close,
    Done,
    Hello,
    Message,
    Poll,
    Refused,
    Route,
    RouteMessageMalformed,
    encoded,
    read,
)
from workers.zone_router.frames import FrameRefused, Frames
from workers.zone_router.main.snapshots import Session
from workers.zone_router.main.streams import ActiveRoute, Stream, StreamBroker
from workers.zone_router.object_storage import StorageFailed

if TYPE_CHECKING:
    from workers.zone_router.main.main_node import MainNode

_MOST_MESSAGE_BYTES = 64 * 1024
"""Largest message of a proxy; messages hold positions, no data."""
_READ_SECONDS = 5.0
"""Seconds in which a part may be read; then its Route is refused, and the proxy rewrites the part."""
_LEAST_BYTES_PER_SECOND = 2_000_000
"""Read rate assumed for large parts, which get more time."""
_AGAIN_SECONDS = 0.05
_MOST_HELD_BYTES = 64 * 1024 * 1024
"""Most bytes of one proxy that are read or being read and not answered; above, its connection is paused."""
_PROXY_FULL, _HOLDS_MUCH = "proxy full", "holds much"
"""Reasons to pause reading."""

_LOG = structlog.get_logger(__name__)


class ProxyConnection(Connection):
    """Connection of one proxy."""

    def __init__(self, node: MainNode, proxies: set[ProxyConnection]) -> None:
        super().__init__()
        self._node, self._proxies = node, proxies
        self._frames = Frames(_MOST_MESSAGE_BYTES)
        self._is_known = False
        self.streams: dict[int, Stream] = {}
        self._routes: asyncio.Queue[ActiveRoute | Close] = asyncio.Queue()
        """Pending Routes and Closes, in order of arrival."""
        self._forwarding: asyncio.Task[None] | None = None
        self._held, self._is_full = 0, False
        self._epochs: Counter[int] = Counter()
        self._session: Session | None = None

    def made(self) -> None:
        self._proxies.add(self)
        self._forwarding = asyncio.get_running_loop().create_task(self._forward_on())

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._handle(read(frame.message()))
        except (FrameRefused, RouteMessageMalformed) as error:
            _LOG.warning("zone_router.proxy_refused", why=str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxies.discard(self)
        self._node.epochs -= self._epochs
        if self._session:
            self._session.close()
        if self._forwarding:
            self._forwarding.cancel()
        while not self._routes.empty():
            if isinstance(item := self._routes.get_nowait(), ActiveRoute):
                item.part.cancel()
        for stream in self.streams.values():
            if stream.broker:
                stream.broker.close()
        self.streams.clear()

    def pause_writing(self) -> None:
        self._is_full = True
        for stream in self.streams.values():
            if stream.broker:
                stream.broker.pause(_PROXY_FULL)

    def resume_writing(self) -> None:
        self._is_full = False
        for stream in self.streams.values():
            if stream.broker:
                stream.broker.resume(_PROXY_FULL)

    def send(self, message: Message) -> None:
        self.write(encoded(message))

    def _handle(self, message: Message) -> None:
        if not self._is_known:
            main = self._node.main
            wanted = Hello(VERSION, getattr(message, "node", 0), main[1], main[0])
            if message != wanted:
                raise RouteMessageMalformed(f"{message!r} at the main of {main}: expected a Hello for it")
            self._is_known = True
            return
        match message:
            case Route():
                self._hold(message.at, 1)
                part = asyncio.get_running_loop().create_task(self._read(message))
                self._routes.put_nowait(ActiveRoute(message, part))
            case Close():
                self._routes.put_nowait(message)
            case Poll() if self._node.confirmer:
                if self._session is None:
                    self._session = self._node.confirmer.snapshots.session(self.send)
                self._session.poll()
            case _:
                raise RouteMessageMalformed(f"{type(message).__name__} is a message for proxies")

    def _hold(self, at: ChannelOffset, by: int) -> None:
        """Account for a Route that arrived (1) or is done (-1)."""
        self._held += by * at.length
        self._epochs[at.epoch] += by
        self._node.epochs[at.epoch] += by
        if self._held > _MOST_HELD_BYTES:
            self.pause(_HOLDS_MUCH)
        else:
            self.resume(_HOLDS_MUCH)

    async def _read(self, route: Route) -> memoryview | str:
        """Read a Route's part, with retries; return the reason as text if that fails."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READ_SECONDS + route.at.length / _LEAST_BYTES_PER_SECOND
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._node.storage.get(route.at.name, route.at.start, route.at.length)
            except (StorageFailed, TimeoutError) as error:
                why = str(error) or f"{route.at.name} was not read within {_READ_SECONDS:g} s"
            if loop.time() + _AGAIN_SECONDS >= deadline:
                return why
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _forward_on(self) -> None:
        """Forward one part after the other, in the order in which they were announced."""
        try:
            while True:
                item = await self._routes.get()
                if isinstance(item, Close):
                    self._leave(item.stream)
                    continue
                part = await item.part
                # Checked after reading, as the fence may have risen meanwhile.
                if item.route.at.epoch <= self._node.fenced or not self._node.knows_fence:
                    self._refuse(item)
                else:
                    self._forward(item, part)
        except Exception as error:  # noqa: BLE001 - otherwise all clients of the proxy would wait for ever
            _LOG.error("zone_router.carrying_failed", why=repr(error))
            self.close()

    def _leave(self, number: int) -> None:
        """End a stream whose client has disconnected."""
        if stream := self.streams.pop(number, None):
            if stream.broker:
                stream.broker.close()
            self._forget(stream)

    def _refuse(self, active: ActiveRoute) -> None:
        self.send(Refused(active.route.request, self._node.fenced))
        self._hold(active.route.at, -1)

    def _forward(self, active: ActiveRoute, part: memoryview | str) -> None:
        try:
            if isinstance(part, str):
                raise BulkMalformed(part)
            entries = list(read_part(part))
        except BulkMalformed as error:
            _LOG.warning("zone_router.part_unreadable", why=str(error))
            self._refuse(active)
            return
        for given in entries:
            self._give(active, given)
        active.is_forwarded = True
        self._done_if_answered(active)

    def _give(self, active: ActiveRoute, given: ReadEntry) -> None:
        """Forward an entry if it is the next of its stream; entries after a gap will be rewritten by the proxy."""
        place = given.place
        stream = self.streams.setdefault(place.stream, Stream())
        if place.turn > stream.turn:
            stream.turn, stream.next = place.turn, 0
        if stream.is_broken or (place.turn, place.number) != (stream.turn, stream.next):
            return
        stream.next += 1
        if stream.broker is None:
            stream.broker = StreamBroker(self, place.stream, stream, self._node.broker())
            if self._is_full:
                stream.broker.pause(_PROXY_FULL)
        at = active.route.at
        forwarded = self._node.forwarded(
            at._replace(start=at.start + given.start, length=len(given.message)), given.message
        )
        stream.waiting.append((place, active, forwarded))
        active.unanswered += 1
        stream.broker.send(given.message)

    def answered(self, stream: Stream, message: memoryview) -> None:
        place, active, forwarded = stream.waiting.popleft()

        def answer() -> None:
            self.send(Answer(place, message))
            active.unanswered -= 1
            self._done_if_answered(active)

        self._node.answered(forwarded, message, stream.answers.next(answer))

    def broker_gone(self, number: int, stream: Stream, broker: StreamBroker) -> None:
        """Handle a closed broker connection. An idle stream reconnects with its next entry; others fail.

        If a request is waiting for a response, it is unknown whether the broker appended it.
        """
        if stream.waiting:
            self.broker_lost(number, stream, "the broker closed the connection")
        elif stream.broker is broker:
            stream.broker = None

    def broker_lost(self, number: int, stream: Stream, why: str) -> None:
        """Fail a stream; its client sees what it would see if it had connected to the broker."""
        if not stream.is_broken and self.streams.get(number) is stream:
            self._break(number, stream, why)

    def _break(self, number: int, stream: Stream, why: str) -> None:
        stream.is_broken = True
        self.send(Broken(number, why))
        self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        """Stop waiting for a stream's responses."""
        for _, active, forwarded in stream.waiting:
            if self._node.confirmer and forwarded:
                self._node.confirmer.forwarded_batches.forget_request(forwarded)
            active.unanswered -= 1
            self._done_if_answered(active)
        stream.waiting.clear()

    def _done_if_answered(self, active: ActiveRoute) -> None:
        if active.is_forwarded and active.unanswered == 0:
            self.send(Done(active.route.request))
            self._hold(active.route.at, -1)
