"""`zr-main`: a broker's own node. Proxies tell it where requests stand; it reads them from object storage, gives
them to its broker as they are, each stream in its order, and sends the broker's answers back.

Each stream has a connection of its own to the broker, as its client would have: brokers take one request of a
connection after another. Source: the zone router's document, "Write": node N1.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from backend.kafka.wire.endpoints import Address
from workers.zone_router.connections import Connection
from workers.zone_router.formats.bulk import BulkMalformed, ChannelOffset, Given, Main, Place
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
from workers.zone_router.main.appended import Handed
from workers.zone_router.main.confirming import Confirming
from workers.zone_router.main.in_order import InOrder
from workers.zone_router.main.snapshots import Session
from workers.zone_router.object_storage import ObjectStorage, StorageFailed

_MOST_MESSAGE_BYTES = 64 * 1024
"""Of what proxies say: places, no data."""
_MOST_ANSWER_BYTES = 2**31 - 1
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 5.0
"""How long a part is tried to be read; then its Route is refused, and the proxy writes what was in it again."""
_LEAST_BYTES_PER_SECOND = 2_000_000
"""It may take so much longer as it is large."""
_AGAIN_SECONDS = 0.05
_MOST_HELD_BYTES = 64 * 1024 * 1024
"""Of one proxy: read, or being read, and not answered by the broker; beyond it no more is taken from it."""
_SIZE = struct.Struct(">i")
_PROXY_FULL, _HOLDS_MUCH = "proxy full", "holds much"
"""Reasons against reading."""

_LOG = structlog.get_logger(__name__)


class MainNode:
    """Listens for proxies."""

    def __init__(
        self,
        main: Main,
        broker: Callable[[], Address | None],
        storage: ObjectStorage,
        confirming: Confirming | None = None,
        *,
        waits_for_wal: bool = False,
    ) -> None:
        """`broker`: where it is now, if that is known. With `waits_for_wal`, what is appended is acknowledged when
        the confirm WAL has it.
        """
        self.main, self.broker, self.storage = main, broker, storage
        self.confirming, self._waits_for_wal = confirming, waits_for_wal
        self.epochs: Counter[int] = Counter()
        """Of Routes that were told and are not done."""
        self.fenced, self.knows_fence = 0, True
        """Epochs up to this one are refused; while it is not known, all: what they tell of may be gone."""
        self._proxies: set[_Proxy] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Raises OSError if another program has the port."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Proxy(self, self._proxies), host, port
        )

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for proxy in list(self._proxies):
            proxy.close()

    def oldest_epoch(self) -> int | None:
        """Of Routes that are not done."""
        return min((epoch for epoch, count in self.epochs.items() if count > 0), default=None)

    def open_streams(self) -> int:
        return sum(len(each.streams) for each in self._proxies)

    def handed(self, at: ChannelOffset, message: memoryview) -> Handed | None:
        """A request is on its way to the broker."""
        if self.confirming is None:
            return None
        handed = self.confirming.appended.give(at, message, asyncio.get_running_loop().time())
        if not all(self.confirming.knows(each.name) for each in handed.given):
            self.confirming.look()
        return handed

    def answered(self, handed: Handed | None, answer: memoryview, then: Callable[[], None]) -> None:
        """The broker has answered it; `then` is called when the client may be."""
        if self.confirming is None or handed is None:
            then()
            return
        self.confirming.answered(handed, answer)
        if self._waits_for_wal:
            self.confirming.when_all_are_stored(handed, then)
        else:
            then()


@dataclass
class _Carried:
    """A Route whose part is being read, or whose entries are with the broker."""

    route: Route
    part: asyncio.Task[memoryview | str]
    """Or why it cannot be read."""
    unanswered: int = 0
    is_handed_over: bool = False


@dataclass
class _Stream:
    """Of one client, by one proxy."""

    turn: int = 0
    next: int = 0
    broker: _Broker | None = None
    is_broken: bool = False
    waiting: deque[tuple[Place, _Carried, Handed | None]] = field(default_factory=deque)
    """With the broker, in order."""
    answers: InOrder = field(default_factory=InOrder)


class _Proxy(Connection):
    """One proxy's connection."""

    def __init__(self, node: MainNode, proxies: set[_Proxy]) -> None:
        super().__init__()
        self._node, self._proxies = node, proxies
        self._frames = Frames(_MOST_MESSAGE_BYTES)
        self._is_known = False
        self.streams: dict[int, _Stream] = {}
        self._routes: asyncio.Queue[_Carried | Close] = asyncio.Queue()
        """What is to be done, in the order in which it was told."""
        self._carrying: asyncio.Task[None] | None = None
        self._held, self._is_full = 0, False
        self._epochs: Counter[int] = Counter()
        self._session: Session | None = None

    def made(self) -> None:
        self._proxies.add(self)
        self._carrying = asyncio.get_running_loop().create_task(self._carry())

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._heard(read(frame.message()))
        except (FrameRefused, RouteMessageMalformed) as error:
            _LOG.warning("zone_router.proxy_refused", why=str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxies.discard(self)
        self._node.epochs -= self._epochs
        if self._session:
            self._session.close()
        if self._carrying:
            self._carrying.cancel()
        while not self._routes.empty():
            if isinstance(told := self._routes.get_nowait(), _Carried):
                told.part.cancel()
        for stream in self.streams.values():
            if stream.broker:
                stream.broker.close()
        self.streams.clear()

    def pause_writing(self) -> None:
        self._is_full = True
        for stream in self.streams.values():
            if stream.broker:
                stream.broker.stop(_PROXY_FULL)

    def resume_writing(self) -> None:
        self._is_full = False
        for stream in self.streams.values():
            if stream.broker:
                stream.broker.go(_PROXY_FULL)

    def say(self, message: Message) -> None:
        self.write(encoded(message))

    def _heard(self, message: Message) -> None:
        if not self._is_known:
            main = self._node.main
            wanted = Hello(VERSION, getattr(message, "node", 0), main[1], main[0])
            if message != wanted:
                raise RouteMessageMalformed(f"{message!r} at the node of {main}: a Hello for it is expected")
            self._is_known = True
            return
        match message:
            case Route():
                self._hold(message.at, 1)
                part = asyncio.get_running_loop().create_task(self._read(message))
                self._routes.put_nowait(_Carried(message, part))
            case Close():
                self._routes.put_nowait(message)
            case Poll() if self._node.confirming:
                if self._session is None:
                    self._session = self._node.confirming.snapshots.session(self.say)
                self._session.poll()
            case _:
                raise RouteMessageMalformed(f"{type(message).__name__} is for proxies")

    def _hold(self, at: ChannelOffset, by: int) -> None:
        """A Route has come (1), or is done with (-1)."""
        self._held += by * at.length
        self._epochs[at.epoch] += by
        self._node.epochs[at.epoch] += by
        if self._held > _MOST_HELD_BYTES:
            self.stop(_HOLDS_MUCH)
        else:
            self.go(_HOLDS_MUCH)

    async def _read(self, route: Route) -> memoryview | str:
        """A Route's part; storage that is slow, or tells of an object a little later, is asked again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READ_SECONDS + route.at.length / _LEAST_BYTES_PER_SECOND
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._node.storage.get(route.at.name, route.at.start, route.at.length)
            except (StorageFailed, TimeoutError) as error:
                why = str(error) or f"{route.at.name} is not read within {_READ_SECONDS:g} s"
            if loop.time() + _AGAIN_SECONDS >= deadline:
                return why
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _carry(self) -> None:
        """Hand over one part after the other, in the order in which they were told."""
        try:
            while True:
                told = await self._routes.get()
                if isinstance(told, Close):
                    self._leave(told.stream)
                    continue
                part = await told.part
                # After the wait: the fence may have risen meanwhile.
                if told.route.at.epoch <= self._node.fenced or not self._node.knows_fence:
                    self._refuse(told)
                else:
                    self._hand_over(told, part)
        except Exception as error:  # noqa: BLE001 - without this all of a proxy's clients would wait for ever
            _LOG.error("zone_router.carrying_failed", why=repr(error))
            self.close()

    def _leave(self, number: int) -> None:
        """A stream's client is gone."""
        if stream := self.streams.pop(number, None):
            if stream.broker:
                stream.broker.close()
            self._forget(stream)

    def _refuse(self, carried: _Carried) -> None:
        self.say(Refused(carried.route.request, self._node.fenced))
        self._hold(carried.route.at, -1)

    def _hand_over(self, carried: _Carried, part: memoryview | str) -> None:
        try:
            if isinstance(part, str):
                raise BulkMalformed(part)
            entries = list(read_part(part))
        except BulkMalformed as error:
            _LOG.warning("zone_router.part_unreadable", why=str(error))
            self._refuse(carried)
            return
        for given in entries:
            self._give(carried, given)
        carried.is_handed_over = True
        self._done_if_answered(carried)

    def _give(self, carried: _Carried, given: Given) -> None:
        """One entry, if it is the next of its stream; what comes after a gap is written again by the proxy."""
        place = given.place
        stream = self.streams.setdefault(place.stream, _Stream())
        if place.turn > stream.turn:
            stream.turn, stream.next = place.turn, 0
        if stream.is_broken or (place.turn, place.number) != (stream.turn, stream.next):
            return
        stream.next += 1
        if stream.broker is None:
            stream.broker = _Broker(self, place.stream, stream, self._node.broker())
            if self._is_full:
                stream.broker.stop(_PROXY_FULL)
        at = carried.route.at
        handed = self._node.handed(
            at._replace(start=at.start + given.start, length=len(given.message)), given.message
        )
        stream.waiting.append((place, carried, handed))
        carried.unanswered += 1
        stream.broker.send(given.message)

    def answered(self, stream: _Stream, message: memoryview) -> None:
        place, carried, handed = stream.waiting.popleft()

        def answer() -> None:
            self.say(Answer(place, message))
            carried.unanswered -= 1
            self._done_if_answered(carried)

        self._node.answered(handed, message, stream.answers.next(answer))

    def broker_gone(self, number: int, stream: _Stream, broker: _Broker) -> None:
        """Brokers end connections that are idle: if nothing waits, the stream's next entry opens another one.

        If something does, nobody knows whether it was taken.
        """
        if stream.waiting:
            self.broker_lost(number, stream, "the broker has ended the connection")
        elif stream.broker is broker:
            stream.broker = None

    def broker_lost(self, number: int, stream: _Stream, why: str) -> None:
        """It is to the client as if it had spoken to the broker itself."""
        if not stream.is_broken and self.streams.get(number) is stream:
            self._break(number, stream, why)

    def _break(self, number: int, stream: _Stream, why: str) -> None:
        stream.is_broken = True
        self.say(Broken(number, why))
        self._forget(stream)

    def _forget(self, stream: _Stream) -> None:
        """Its answers are waited for no more."""
        for _, carried, handed in stream.waiting:
            if self._node.confirming and handed:
                self._node.confirming.appended.taken_back(handed)
            carried.unanswered -= 1
            self._done_if_answered(carried)
        stream.waiting.clear()

    def _done_if_answered(self, carried: _Carried) -> None:
        if carried.is_handed_over and carried.unanswered == 0:
            self.say(Done(carried.route.request))
            self._hold(carried.route.at, -1)


class _Broker(Connection):
    """A stream's connection to the broker, made when it is first needed."""

    def __init__(self, proxy: _Proxy, number: int, stream: _Stream, address: Address | None) -> None:
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
                raise OSError("the cluster has not told of it")
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self, *self._address)
        except Exception as error:  # noqa: BLE001 - a name may be one that no resolver likes
            self._proxy.broker_lost(self._number, self._stream, f"the broker is away: {error or 'no answer'}")

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if not self._stream.waiting:
                    raise FrameRefused("an answer that nobody asked for")
                self._proxy.answered(self._stream, frame.message())
        except FrameRefused as error:
            self._proxy.broker_lost(self._number, self._stream, f"the broker says what is no answer: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy.broker_gone(self._number, self._stream, self)
