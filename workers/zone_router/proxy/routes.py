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
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import structlog

from backend.kafka.wire.encoding import Buffer
from workers.zone_router.document import MainAt
from workers.zone_router.formats.bulk import Entry, Main, Place
from workers.zone_router.formats.route_messages import Answer, Close
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits, Part, RouterChannel
from workers.zone_router.proxy.main_link import MainLink
from workers.zone_router.traffic import Traffic

_LOOK_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
"""Twice as long as clients wait for an answer by themselves."""
_MOST_REFUSALS = 5
"""Of a stream, one after the other; more, and what it sends cannot be brought to its main."""

_LOG = structlog.get_logger(__name__)

OnAnswer = Callable[[memoryview], None]
OnBroken = Callable[[str], None]


class _Pending(NamedTuple):
    entry: Entry
    on_answer: OnAnswer
    taken_at: float


class Stream:
    """What one client asks one main, in its order."""

    def __init__(self, routes: Routes, main: Main, on_broken: OnBroken) -> None:
        self._routes, self.main, self._on_broken = routes, main, on_broken
        self.id = next(routes.stream_ids)
        self._turn, self._next, self._refusals = 0, 0, 0
        self._pending: deque[_Pending] = deque()
        self._is_leaving = self._is_ended = False

    def send(self, pieces: Sequence[Buffer], size: int, on_answer: OnAnswer) -> None:
        """A request without its size in front, whose broker will answer."""
        now = asyncio.get_running_loop().time()
        self._take(_Pending(Entry(self.main, self._place(), pieces, size), on_answer, now))

    def answered(self, answer: Answer) -> None:
        """By the broker, to the oldest that is not answered."""
        if not self._pending or self._pending[0].entry.place != answer.place:
            self.broken(f"the main answers {answer.place}, which is not what is next")
            return
        self._refusals = 0
        pending = self._pending.popleft()
        self._routes.released(self.main, pending.entry.size)
        pending.on_answer(cast(memoryview, answer.message))
        if self._is_leaving and not self._pending:
            self._end()

    def refused(self, place: Place) -> None:
        """Write it, and all that was sent after it, again; nothing of it was done."""
        if self._is_ended or place.turn != self._turn:
            return  # with those before it, already
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            self.broken(f"main {self.main} has refused it {_MOST_REFUSALS} times")
            return
        again = [each for each in self._pending if each.entry.place >= place]
        for _ in again:
            self._pending.pop()
        self._turn, self._next = self._turn + 1, 0
        for each in again:
            self._routes.released(self.main, each.entry.size)
            self._take(each._replace(entry=replace(each.entry, place=self._place())))

    def waits_for(self, place: Place) -> bool:
        """Whether an entry is still to be written and told of as it is."""
        return not self._is_ended and place.turn == self._turn

    @property
    def waits_since(self) -> float | None:
        """When the oldest was taken that is not answered."""
        return self._pending[0].taken_at if self._pending else None

    def broken(self, why: str) -> None:
        """It does not go on."""
        if not self._is_ended:
            self._end()
            if not self._is_leaving:
                self._on_broken(why)

    def close(self) -> None:
        """The client is gone. What it had sent is still written, as a broker takes what it has received."""
        self._is_leaving = True
        if not self._pending and not self._is_ended:
            self._end()

    def _end(self) -> None:
        self._is_ended = True
        for each in self._pending:
            self._routes.released(self.main, each.entry.size)
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
        kept: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """With `spares_home`, what is for a broker of the node's own zone goes to it as it is. `kept` is given the
        objects that were written; they are deleted only when their epoch was committed, then.
        """
        self.node, self.traffic, self.spares_home = node, traffic, spares_home
        self.epoch = 1
        self.stream_ids = itertools.count(1)
        self._mains = mains
        self._streams: dict[int, Stream] = {}
        self._links: dict[Main, MainLink] = {}
        self._parts_left: dict[str, int] = {}
        """Of each object: for how many mains it is still to be read, or to be answered."""
        self._channel = RouterChannel(
            storage,
            node,
            lambda: self.epoch,
            limits,
            self._written,
            self._not_written,
            self._is_wanted,
            traffic.channel,
            left=self._are_left,
            kept=kept,
        )
        self._is_kept = kept is not None
        self._uncommitted: list[tuple[int, str]] = []
        """Objects that mains have done with, and the epoch of each."""
        self._left: list[str] = []
        """Objects of a process before this one, whose epochs nobody knows."""
        self._held: Counter[Main] = Counter()
        """Bytes of requests that were taken and not answered."""
        self._on_room: list[tuple[Main, Callable[[], None]]] = []
        self._most_held = limits.held_bytes
        traffic.channel.watch(lambda: self.held_bytes, lambda: len(self._streams))

    async def run(self) -> None:
        """Write what comes until it is cancelled. Raises ChannelFenced."""
        watching = asyncio.create_task(self._let_down())
        try:
            await self._channel.run()
        finally:
            watching.cancel()

    async def _let_down(self) -> None:
        """Streams whose main does not answer: their clients have given up, or will; nothing of them is held on."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            late = asyncio.get_running_loop().time() - _ANSWER_SECONDS
            for stream in list(self._streams.values()):
                if (since := stream.waits_since) is not None and since < late:
                    stream.broken(f"main {stream.main} has not answered within {_ANSWER_SECONDS:.0f} s")

    @property
    def held_bytes(self) -> int:
        """Of requests that were taken and not answered, and of those that are still to be left out."""
        return max(self._held.total(), self._channel.held_bytes)

    def knows(self, main: Main) -> bool:
        return main in self._mains

    def stream(self, main: Main, on_broken: OnBroken) -> Stream:
        """For one client."""
        found = Stream(self, main, on_broken)
        self._streams[found.id] = found
        return found

    def take(self, entry: Entry) -> None:
        self._held[entry.main] += entry.size
        self._channel.take(entry)

    def released(self, main: Main, size: int) -> None:
        """So many bytes are held no more."""
        self._held[main] -= size
        if self._on_room:
            waiting, self._on_room = self._on_room, []
            for each in waiting:
                if self._has_room(each[0]):
                    each[1]()
                else:
                    self._on_room.append(each)

    def when_there_is_room(self, main: Main, resume: Callable[[], None]) -> bool:
        """Whether too much is held for another request to this main; if so, `resume` is called when it is not."""
        if self._has_room(main):
            return False
        self._on_room.append((main, resume))
        return True

    def _has_room(self, main: Main) -> bool:
        """One main that stands still has half of it all, so that the others go on."""
        return self.held_bytes <= self._most_held and self._held[main] <= self._most_held // 2

    def ended(self, stream: Stream) -> None:
        self._streams.pop(stream.id, None)
        if link := self._links.get(stream.main):
            link.say(Close(stream.id))

    def stream_of(self, number: int) -> Stream | None:
        return self._streams.get(number)

    def lost(self, main: Main, why: str) -> None:
        """The connection to a main: what it has not answered may be done or not, as when a broker dies."""
        self._links.pop(main, None)
        for stream in [each for each in self._streams.values() if each.main == main]:
            stream.broken(why)

    async def close(self, seconds: float) -> None:
        """Let what was taken be answered, for some seconds, and end."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._held.total() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for link in list(self._links.values()):
            link.close()

    def done(self, part: Part) -> None:
        """A main has done with it, or never will."""
        name = part.at.name
        self._parts_left[name] -= 1
        if self._parts_left[name] == 0:
            del self._parts_left[name]
            if self._is_kept:
                self._uncommitted.append((part.at.epoch, name))
            else:
                self._channel.trim([name])

    def now(self, epoch: int, committed: int) -> None:
        """What is written from now on is of this epoch; what was written in epochs up to `committed` is in blocks,
        or was never appended.
        """
        self.epoch = max(self.epoch, epoch)
        # What a process before this one has left is of some epoch up to this one.
        self._uncommitted += [(self.epoch, name) for name in self._left]
        self._left = []
        due = [name for of_epoch, name in self._uncommitted if of_epoch <= committed]
        self._uncommitted = [each for each in self._uncommitted if each[0] > committed]
        self._channel.trim(due)

    def _are_left(self, names: Sequence[str]) -> None:
        if self._is_kept:
            self._left += names
        else:
            self._channel.trim(names)

    def _is_wanted(self, place: Place) -> bool:
        stream = self._streams.get(place.stream)
        return stream is not None and stream.waits_for(place)

    def _written(self, parts: Sequence[Part]) -> None:
        self._parts_left[parts[0].at.name] = len(parts)
        for part in parts:
            if not any(map(self._is_wanted, part.places)):
                self.done(part)  # all their clients are gone
                continue
            link = self._links.get(part.main)
            if link is None:
                link = self._links[part.main] = MainLink(self, part.main, self._mains[part.main])
            link.route(part)
            # Said before it as well, perhaps: the main begins a stream with the first that it reads of it.
            for gone in {place.stream for place in part.places} - self._streams.keys():
                link.say(Close(gone))

    def _not_written(self, places: Sequence[Place], why: str) -> None:
        for place in places:
            if self._is_wanted(place):
                self._streams[place.stream].broken(why)
