"""A proxy's routes to the mains: write produced data to the channel, and announce it to the main.

    Client -> Stream.send -> RouterChannel -> (written) -> Route -> main -> Answer -> Stream -> Client

A stream keeps requests until they are answered. If a Route is refused because its epoch is fenced, its entries are
rewritten under the current epoch; the old bulk is never announced again, as it may be deleted. If the main or
storage fails, the stream breaks and its client is disconnected; it reconnects and resends unanswered requests, as
after a broker failure.
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
from workers.zone_router.formats.bulk import Entry, Main, Place
from workers.zone_router.formats.route_messages import Answer, Close
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits, Part, RouterChannel
from workers.zone_router.proxy.main_link import MainLink
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic

_CHECK_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
"""Seconds after which an unanswered stream is broken; twice the default timeout of clients."""
_MOST_REFUSALS = 5
"""Most consecutive refusals of a stream; then it is broken, as its data does not reach the main."""

_LOG = structlog.get_logger(__name__)

OnAnswer = Callable[[memoryview], None]
OnBroken = Callable[[str], None]


class _Pending(NamedTuple):
    entry: Entry
    on_answer: OnAnswer
    taken_at: float


class Stream:
    """Requests of one client to one main, in order."""

    def __init__(self, routes: Routes, main: Main, on_broken: OnBroken) -> None:
        self._routes, self.main, self._on_broken = routes, main, on_broken
        self.id = next(routes.stream_ids)
        self._turn, self._next, self._refusals = 0, 0, 0
        self._pending: deque[_Pending] = deque()
        self._is_leaving = self._is_ended = False

    def send(self, pieces: Sequence[Buffer], size: int, on_answer: OnAnswer) -> None:
        """Send a request without its size, which the broker will answer."""
        now = asyncio.get_running_loop().time()
        self._take(_Pending(Entry(self.main, self._place(), pieces, size), on_answer, now))

    def answered(self, answer: Answer) -> None:
        """Handle the broker's response to the oldest unanswered request."""
        if not self._pending or self._pending[0].entry.place != answer.place:
            self.broken(f"the main answered {answer.place} out of order")
            return
        self._refusals = 0
        pending = self._pending.popleft()
        self._routes.released(self.main, pending.entry.size)
        pending.on_answer(cast(memoryview, answer.message))
        if self._is_leaving and not self._pending:
            self._end()

    def refused(self, place: Place) -> None:
        """Rewrite a refused entry and all later ones; none of them was processed."""
        if self._is_ended or place.turn != self._turn:
            return  # already rewritten with an earlier entry
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            self.broken(f"main {self.main} refused the requests {_MOST_REFUSALS} times")
            return
        again = [each for each in self._pending if each.entry.place >= place]
        for _ in again:
            self._pending.pop()
        self._turn, self._next = self._turn + 1, 0
        for each in again:
            self._routes.released(self.main, each.entry.size)
            self._take(each._replace(entry=replace(each.entry, place=self._place())))

    def waits_for(self, place: Place) -> bool:
        """Return whether an entry is still to be written in its current form."""
        return not self._is_ended and place.turn == self._turn

    @property
    def waits_since(self) -> float | None:
        """Return when the oldest unanswered request arrived."""
        return self._pending[0].taken_at if self._pending else None

    def broken(self, why: str) -> None:
        """Break the stream and disconnect its client."""
        if not self._is_ended:
            self._end()
            if not self._is_leaving:
                self._on_broken(why)

    def close(self) -> None:
        """Close the stream of a disconnected client. Received requests are still written, as a broker would do."""
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
    """Streams of a node, its channel, and its connections to mains."""

    def __init__(
        self,
        node: int,
        storage: ObjectStorage,
        mains: Mapping[Main, MainAt],
        limits: Limits,
        traffic: Traffic,
        *,
        bypasses_home_zone: bool = False,
        kept: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """Set up.

        With `bypasses_home_zone`, data for a broker of the node's own zone goes to it directly. `kept` receives
        the written objects, which are then deleted only when their epoch is committed.
        """
        self.node, self.traffic, self.bypasses_home_zone = node, traffic, bypasses_home_zone
        self.epoch = 1
        self.stream_ids = itertools.count(1)
        self._mains = mains
        self._streams: dict[int, Stream] = {}
        self._links: dict[Main, MainLink] = {}
        self._parts_left: dict[str, int] = {}
        """Number of mains that have yet to process each object."""
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
        """Processed objects, with their epochs."""
        self._left: list[str] = []
        """Objects of an earlier process, whose epochs are unknown."""
        self._held: Counter[Main] = Counter()
        """Bytes of unanswered requests, by main."""
        self._on_room: list[tuple[Main, Callable[[], None]]] = []
        self._most_held = limits.held_bytes
        traffic.channel.watch(lambda: self.held_bytes, lambda: len(self._streams))

    async def run(self) -> None:
        """Write produced data until cancelled. Raises ChannelFenced."""
        watching = asyncio.create_task(self._break_late_streams())
        try:
            await self._channel.run()
        finally:
            watching.cancel()

    async def _break_late_streams(self) -> None:
        """Break streams whose main does not respond, to release memory; their clients have timed out or will."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            late = asyncio.get_running_loop().time() - _ANSWER_SECONDS
            for stream in list(self._streams.values()):
                if (since := stream.waits_since) is not None and since < late:
                    stream.broken(f"main {stream.main} did not respond within {_ANSWER_SECONDS:.0f} s")

    @property
    def held_bytes(self) -> int:
        """Return the bytes of unanswered requests, and of entries that are yet to be dropped."""
        return max(self._held.total(), self._channel.held_bytes)

    def knows(self, main: Main) -> bool:
        return main in self._mains

    def stream(self, main: Main, on_broken: OnBroken) -> Stream:
        """Open a stream for one client."""
        found = Stream(self, main, on_broken)
        self._streams[found.id] = found
        return found

    def take(self, entry: Entry) -> None:
        self._held[entry.main] += entry.size
        self._channel.take(entry)

    def released(self, main: Main, size: int) -> None:
        """Release bytes of a main's requests."""
        self._held[main] -= size
        if self._on_room:
            waiting, self._on_room = self._on_room, []
            for each in waiting:
                if self._has_room(each[0]):
                    each[1]()
                else:
                    self._on_room.append(each)

    def when_there_is_room(self, main: Main, resume: Callable[[], None]) -> bool:
        """Return whether memory for requests to this main is exhausted; if so, call `resume` once it is not."""
        if self._has_room(main):
            return False
        self._on_room.append((main, resume))
        return True

    def _has_room(self, main: Main) -> bool:
        """Return whether there is room for requests to this main.

        A single main may hold half of the memory, so that a stalled main does not stop others.
        """
        return self.held_bytes <= self._most_held and self._held[main] <= self._most_held // 2

    def ended(self, stream: Stream) -> None:
        self._streams.pop(stream.id, None)
        if link := self._links.get(stream.main):
            link.send(Close(stream.id))

    def stream_of(self, number: int) -> Stream | None:
        return self._streams.get(number)

    def lost(self, main: Main, why: str) -> None:
        """Break the streams of a lost main; unanswered requests may or may not have been appended."""
        self._links.pop(main, None)
        for stream in [each for each in self._streams.values() if each.main == main]:
            stream.broken(why)

    async def close(self, seconds: float) -> None:
        """Wait some seconds for outstanding responses, then close."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._held.total() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for link in list(self._links.values()):
            link.close()

    def done(self, part: Part) -> None:
        """Note that a main has processed a part or never will."""
        name = part.at.name
        self._parts_left[name] -= 1
        if self._parts_left[name] == 0:
            del self._parts_left[name]
            if self._is_kept:
                self._uncommitted.append((part.at.epoch, name))
            else:
                self._channel.trim([name])

    def now(self, epoch: int, committed: int) -> None:
        """Set the current epoch; delete objects of committed epochs.

        Their data is in blocks or was never appended.
        """
        self.epoch = max(self.epoch, epoch)
        # Objects of an earlier process belong to this epoch or an older one.
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
                self.done(part)  # all their clients have disconnected
                continue
            link = self._links.get(part.main)
            if link is None:
                link = self._links[part.main] = MainLink(self, part.main, self._mains[part.main])
            link.route(part)
            # Possibly repeated: the main opens a stream with the first entry that it reads of it.
            for gone in {place.stream for place in part.places} - self._streams.keys():
                link.send(Close(gone))

    def _not_written(self, places: Sequence[Place], why: str) -> None:
        for place in places:
            if self._is_wanted(place):
                self._streams[place.stream].broken(why)
