"""A proxy's way to the mains: what a client produces is written to the router channel, and its main told where.

    Client -> Stream.send -> RouterChannel -> (written) -> Route -> main -> Answer -> Stream -> Client

A stream keeps what it sent until it is answered. If a Route is refused, since its epoch is over, its entries are
written again under the epoch of now; they are never told of again as they are, since their bulk may be trimmed.
If the main, or the storage, does not go on, the stream is broken, and its client is let down: it comes back, as it
does when a broker dies, and sends again what was not answered.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import structlog

from backend.kafka.wire.encoding import Buffer
from backend.kafka.wire.endpoints import Address
from workers.zone_router.bulk import Entry, Main, Place
from workers.zone_router.channel import Limits, Part, RouterChannel
from workers.zone_router.connections import End
from workers.zone_router.frames import FrameRefused, Frames
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.route_messages import (
    VERSION,
    Answer,
    Broken,
    Close,
    Done,
    Hello,
    Message,
    Refused,
    Route,
    RouteMessageMalformed,
    encoded,
    read,
)
from workers.zone_router.traffic import Traffic

_MOST_MESSAGE_BYTES = 2**31 - 1
_CONNECT_SECONDS = 5.0
_MOST_REFUSALS = 5
"""Of a stream, one after the other; more, and what it sends cannot be brought to its main."""

_LOG = structlog.get_logger(__name__)

OnAnswer = Callable[[memoryview], None]
OnBroken = Callable[[str], None]


class _Pending(NamedTuple):
    entry: Entry
    on_answer: OnAnswer


class MainAt(NamedTuple):
    """Where a main's own node listens, and the zone it is in."""

    address: Address
    zone: str


class Stream:
    """What one client asks one main, in its order."""

    def __init__(self, routes: Routes, main: Main, on_broken: OnBroken) -> None:
        self._routes, self.main, self._on_broken = routes, main, on_broken
        self.id = next(routes.stream_ids)
        self._turn, self._next = 0, 0
        self._refusals = 0
        self._pending: deque[_Pending] = deque()
        self.is_ended = False

    def send(self, pieces: Sequence[Buffer], size: int, on_answer: OnAnswer) -> None:
        """A request without its size in front, whose broker will answer."""
        self._take(_Pending(Entry(self.main, self._place(), pieces, size), on_answer))

    def answered(self, answer: Answer) -> None:
        """By the broker, to the oldest that is not answered."""
        if not self._pending or self._pending[0].entry.place != answer.place:
            self.broken(f"the main answers {answer.place}, which is not what is next")
            return
        self._refusals = 0
        pending = self._pending.popleft()
        self._routes.released(pending.entry.size)
        pending.on_answer(cast(memoryview, answer.message))

    def refused(self, entry: Entry) -> None:
        """Write it, and all that was sent after it, again; nothing of it was done."""
        if self.is_ended or entry.place.turn != self._turn:
            return  # with those before it, already
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            self.broken(f"main {self.main} has refused it {_MOST_REFUSALS} times")
            return
        again = [each for each in self._pending if each.entry.place >= entry.place]
        for _ in again:
            self._pending.pop()
        self._turn, self._next = self._turn + 1, 0
        for each in again:
            self._routes.released(each.entry.size)
            self._take(each._replace(entry=replace(each.entry, place=self._place())))

    def broken(self, why: str) -> None:
        """It does not go on."""
        if not self.is_ended:
            self._end()
            self._on_broken(why)

    def close(self) -> None:
        """The client is gone."""
        if not self.is_ended:
            self._end()

    def _end(self) -> None:
        self.is_ended = True
        for each in self._pending:
            self._routes.released(each.entry.size)
        self._pending.clear()
        self._routes.ended(self)

    def _place(self) -> Place:
        place = Place(self.id, self._turn, self._next)
        self._next += 1
        return place

    def _take(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._routes.take(pending.entry)


class Routes:
    """All streams of a node, its channel, and its connections to mains."""

    def __init__(
        self,
        node: int,
        storage: ObjectStorage,
        mains: Mapping[Main, MainAt],
        limits: Limits,
        traffic: Traffic,
        *,
        spares_home: bool = False,
    ) -> None:
        """With `spares_home`, what is for a broker of the node's own zone goes to it as it is."""
        self.node, self.traffic, self.spares_home = node, traffic, spares_home
        self.epoch = 1
        self.stream_ids = itertools.count(1)
        self._mains = mains
        self._streams: dict[int, Stream] = {}
        self._links: dict[Main, _Link] = {}
        self._parts_left: dict[str, int] = {}
        """Of each object: for how many mains it is still to be read, or to be answered."""
        self._channel = RouterChannel(storage, node, lambda: self.epoch, limits, self._written, self._not_written)
        self.held_bytes = 0
        """Of requests that were taken and not answered."""
        self._on_room: list[Callable[[], None]] = []
        self._most_held = limits.held_bytes

    async def run(self) -> None:
        """Write what comes until it is cancelled. Raises ChannelFenced, StorageFailed."""
        await self._channel.run()

    def knows(self, main: Main) -> bool:
        return main in self._mains

    def stream(self, main: Main, on_broken: OnBroken) -> Stream:
        """For one client."""
        found = Stream(self, main, on_broken)
        self._streams[found.id] = found
        return found

    def take(self, entry: Entry) -> None:
        self.held_bytes += entry.size
        self._channel.take(entry)

    def released(self, size: int) -> None:
        """So many bytes are held no more."""
        self.held_bytes -= size
        if self._on_room and self.held_bytes <= self._most_held:
            waiting, self._on_room = self._on_room, []
            for resume in waiting:
                resume()

    def when_there_is_room(self, resume: Callable[[], None]) -> bool:
        """Whether too much is held for another request; if so, `resume` is called when it is not any more."""
        if self.held_bytes <= self._most_held:
            return False
        self._on_room.append(resume)
        return True

    def ended(self, stream: Stream) -> None:
        self._streams.pop(stream.id, None)
        if link := self._links.get(stream.main):
            link.say(Close(stream.id))

    def of(self, entry: Entry) -> Stream | None:
        return self._streams.get(entry.place.stream)

    def stream_of(self, number: int) -> Stream | None:
        return self._streams.get(number)

    def lost(self, main: Main, why: str) -> None:
        """The connection to a main: what it has not answered may be done or not, as when a broker dies."""
        self._links.pop(main, None)
        for stream in [each for each in self._streams.values() if each.main == main]:
            stream.broken(why)

    def close(self) -> None:
        for link in list(self._links.values()):
            link.close()

    def done(self, part: Part) -> None:
        """A main has done with it, or never will."""
        name = part.at.name
        self._parts_left[name] -= 1
        if self._parts_left[name] == 0:
            del self._parts_left[name]
            self._channel.trim([name])

    def _written(self, parts: Sequence[Part]) -> None:
        if parts:
            self._parts_left[parts[0].at.name] = len(parts)
        for part in parts:
            if not any(self.of(entry) for entry in part.entries):
                self.done(part)  # all their clients are gone
                continue
            link = self._links.get(part.main)
            if link is None:
                link = self._links[part.main] = _Link(self, part.main, self._mains[part.main])
            link.route(part)

    def _not_written(self, entries: Sequence[Entry], why: str) -> None:
        for entry in entries:
            if stream := self.of(entry):
                stream.broken(why)


class _Link(asyncio.Protocol):
    """A connection to one main; made by the first who needs it, and gone for good when it is lost."""

    def __init__(self, routes: Routes, main: Main, at: MainAt) -> None:
        self._routes, self._main, self._at = routes, main, at
        self._frames = Frames(_MOST_MESSAGE_BYTES)
        self._end: End | None = None
        self._requests: dict[int, Part] = {}
        self._numbers = itertools.count(1)
        self._unsent: list[Message] = [Hello(VERSION, routes.node, main[1], main[0])]
        self._connecting = asyncio.get_running_loop().create_task(self._connect())
        self._is_lost = False

    def route(self, part: Part) -> None:
        """Tell the main where it is."""
        request = next(self._numbers)
        self._requests[request] = part
        self.say(Route(request, part.at))

    def say(self, message: Message) -> None:
        if self._end is None:
            self._unsent.append(message)
            return
        pieces = encoded(message)
        self._count(pieces, self._routes.traffic.zone, self._at.zone)
        self._end.write(pieces)

    def close(self) -> None:
        self._connecting.cancel()
        if self._end:
            self._end.close()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self, *self._at.address)
        except Exception as error:  # noqa: BLE001 - a name may be one that no resolver likes
            self._lose(f"main {self._main} is away: {error or 'no answer'}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._end = End(transport)
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self.say(message)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._count(frame.pieces, self._at.zone, self._routes.traffic.zone)
                self._heard(read(frame.message()))
        except (FrameRefused, RouteMessageMalformed) as error:
            self._lose(f"main {self._main} says what is no message: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"main {self._main} has gone{f': {exc}' if exc else ''}")

    def _heard(self, message: Message) -> None:
        match message:
            case Answer(place=place):
                if stream := self._routes.stream_of(place.stream):
                    stream.answered(message)
            case Refused(request=request, fenced=fenced):
                self._routes.epoch = max(self._routes.epoch, fenced + 1)
                part = self._requests.pop(request, None)
                for entry in part.entries if part else ():
                    if stream := self._routes.of(entry):
                        stream.refused(entry)
                if part:
                    self._routes.done(part)
            case Broken(stream=number, why=why):
                if stream := self._routes.stream_of(number):
                    stream.broken(why)
            case Done(request=request):
                if part := self._requests.pop(request, None):
                    self._routes.done(part)
            case _:
                raise RouteMessageMalformed(f"{type(message).__name__} is for mains")

    def _lose(self, why: str) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        if self._end:
            self._end.close()
        _LOG.warning("zone_router.main_lost", why=why)
        self._routes.lost(self._main, why)
        parts, self._requests = list(self._requests.values()), {}
        for part in parts:
            self._routes.done(part)

    def _count(self, pieces: Sequence[Buffer], from_zone: str, to_zone: str) -> None:
        self._routes.traffic.told_main(from_zone, to_zone, sum(map(len, pieces)))
