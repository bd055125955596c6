"""Answers to Fetch out of what is in the zone: what a replica knows, with bytes from caches and object storage.

What was written before the broker became the leader is read from what those followed who led before it. What can't
be answered so is asked of the leader, a *cold read*: what is older than what is known, what the replica does not
know of, offsets that are out of range, and whatever is not as it should be, for the leader to say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backend.kafka.wire.batches import batches, placed
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.fetched import FetchAnswer, PartitionFetched, fetch_answer, read_fetch_answer
from backend.kafka.wire.fetches import FetchAsked, PartitionAsked, fetch_request, read_fetch
from backend.kafka.wire.requests import Request
from workers.zone_router.object_storage import StorageFailed
from workers.zone_router.proxy.index import Stretch
from workers.zone_router.proxy.replica import Replica, View
from workers.zone_router.proxy.stored import Stored

_UNKNOWN_SECONDS = 5.0
"""A partition that is not known yet may be new, and a main that is away may come; so long they are waited for."""
_STAYS_UNKNOWN_SECONDS = 30.0
_AHEAD_SECONDS = 5.0
"""So long one who is ahead of what is known is waited for: ends are the leader's to tell, and what is known here
may be late. Then the leader is asked: the offset may be out of range."""
_STAYS_LATE_SECONDS = 30.0
_MOST_WAITED_FOR = 10_000
_AGAIN_SECONDS = 0.2
_COLD_WAIT_MS = 100
"""How long the leader may wait for more, while others of the same answer are waited for here."""
_SESSION_NOT_FOUND = 70
_NO_SESSION = -1
_COMMITTED = 1


class ReadIn(NamedTuple):
    """What was read of one partition."""

    pieces: list[Buffer]
    size: int
    end: int
    """The next offset."""


@dataclass
class Answered:
    """What the zone has of an answer; `cold` is what the leader is to be asked, if anything is."""

    pieces: Sequence[Buffer]
    cold: Sequence[Buffer] | None = None
    """A request, without its size."""
    merge: Callable[[memoryview], Sequence[Buffer]] | None = None
    """The leader's answer to it -> the whole answer. Raises MessageMalformed."""
    cold_partitions: int = 0


@dataclass
class _Turn:
    """One look at what there is."""

    is_last: bool
    views: dict[int, View] = field(default_factory=dict)
    """By place in the request, as all here."""
    cold: list[int] = field(default_factory=list)
    read: dict[int, ReadIn] = field(default_factory=dict)
    size: int = 0
    is_full: bool = False
    """There is more than is wanted."""
    failed: bool = False
    """Something could not be read, and may be later."""


class Reading:
    """Of one node and one main."""

    def __init__(
        self, replica: Replica, others: Callable[[], Sequence[Replica]], stored: Stored, most_bytes: int
    ) -> None:
        """`others`: of the cluster's other mains. An answer has at most so many bytes, but for one batch that is
        larger.
        """
        self._replica, self._others, self._stored, self._most_bytes = replica, others, stored, most_bytes
        self._unknown: dict[tuple[str | bytes, int], float] = {}
        """When a partition that is not known was first asked for."""
        self._ahead: dict[tuple[str | bytes, int, int], float] = {}
        """When an offset ahead of what is known was first asked for."""
        self._before_since: dict[tuple[str | bytes, int], float] = {}
        """When what was before the leader's time was first waited for, of a partition."""
        self._late: dict[tuple[str | bytes, int], float] = {}
        """When one who is ahead was last waited for in vain: else each of its requests would wait anew while the
        main stands still."""

    async def answer(self, request: Request, message: memoryview) -> Answered:
        """To a Fetch. Raises MessageMalformed."""
        asked = read_fetch(request, message)
        if asked.session_id:
            refused = FetchAnswer(0, _SESSION_NOT_FOUND, 0, [])
            return Answered(fetch_answer(request.version, request.correlation, refused))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(0, asked.max_wait_ms) / 1_000
        while True:
            moves, left = self._replica.moves(), deadline - loop.time()
            turn = _Turn(is_last=left <= 0)
            self._sort(asked, turn, loop.time())
            await self._read(asked, turn)
            enough = turn.size >= min(asked.min_bytes, self._most_bytes // 2) or turn.is_full
            if turn.cold or turn.is_last or (enough and not turn.failed):
                return self._composed(request, asked, turn)
            await asyncio.wait([moves], timeout=min(left, _AGAIN_SECONDS) if turn.failed else left)

    def _sort(self, asked: FetchAsked, turn: _Turn, now: float) -> None:
        """Of each partition that is asked for: what is known, or that the leader is to say."""
        for at, each in enumerate(asked.partitions):
            view = self._replica.view(each.topic, each.partition)
            if view is None:
                if not self._may_come(each, now):
                    turn.cold.append(at)
                continue
            self._unknown.pop((each.topic, each.partition), None)
            view.where.wanted_at = now
            is_ahead = each.fetch_offset > view.state.high_watermark
            if _is_for_the_leader(each, view) or (is_ahead and not self._may_catch_up(each, now)):
                turn.cold.append(at)
            elif is_ahead:
                continue
            elif each.fetch_offset >= view.until or view.where.has(each.fetch_offset):
                turn.views[at] = view
            elif before := self._before(view, each.fetch_offset, asked.isolation):
                turn.views[at] = before
            elif each.fetch_offset < view.where.begins.offset and self._others_may_come(each, now):
                turn.failed = True
            else:
                turn.cold.append(at)

    def _before(self, view: View, offset: int, isolation: int) -> View | None:
        """What is before where the leader's main began to follow, from who has the epoch of the record before that
        as its last; and so on.

        Records of one epoch were written by one leader: where two logs have some of the same epoch, they are the
        same up to the last that both have (KIP-101).
        """
        epoch, until = view.where.begins
        while offset < until:
            held = (each.held(view.state.partition) for each in self._others())
            where = next((each for each in held if each and each.last_epoch == epoch >= 0), None)
            if where is None:
                return None
            if where.has(offset):
                if isolation == _COMMITTED:
                    # A transaction that was open then was ended by another leader: its main tells of it. One whose
                    # marker the next leader did not have was not ended.
                    until = min(until, where.decided) if where.end <= until else 0
                return View(view.state, where, until, is_earlier=True) if offset < until else None
            epoch, until = where.begins.epoch_before, min(until, where.begins.offset)
        return None

    def _others_may_come(self, asked: PartitionAsked, now: float) -> bool:
        since = self._before_since.setdefault((asked.topic, asked.partition), now)
        return now - since < _UNKNOWN_SECONDS and any(
            each.away_since is not None and now - each.away_since < _UNKNOWN_SECONDS for each in self._others()
        )

    def _may_come(self, asked: PartitionAsked, now: float) -> bool:
        if (away_since := self._replica.away_since) is not None:
            return now - away_since < _UNKNOWN_SECONDS
        key = (asked.topic, asked.partition)
        if len(self._unknown) > _MOST_WAITED_FOR:
            self._unknown.clear()
        since = self._unknown.setdefault(key, now)
        if now - since > _STAYS_UNKNOWN_SECONDS:
            self._unknown[key] = since = now
        return now - since < _UNKNOWN_SECONDS

    def _may_catch_up(self, asked: PartitionAsked, now: float) -> bool:
        key = (asked.topic, asked.partition)
        if now - self._late.get(key, -_STAYS_LATE_SECONDS) < _STAYS_LATE_SECONDS:
            return False
        if len(self._ahead) > _MOST_WAITED_FOR:
            self._ahead.clear()
        place = (*key, asked.fetch_offset)
        if now - self._ahead.setdefault(place, now) < _AHEAD_SECONDS:
            return True
        del self._ahead[place]
        self._late[key] = now
        return False

    async def _read(self, asked: FetchAsked, turn: _Turn) -> None:
        """What there is, up to the bytes that are wanted."""
        most_of_all = min(asked.max_bytes, self._most_bytes)
        for at, view in list(turn.views.items()):
            each = asked.partitions[at]
            upper = view.until
            if asked.isolation == _COMMITTED:
                upper = min(upper, view.state.last_stable)
            if each.fetch_offset >= upper:
                continue
            if turn.size >= most_of_all:
                turn.is_full = True
                return
            most = min(most_of_all - turn.size, each.max_bytes)
            try:
                found = await self._stretches(view, each.fetch_offset, upper, most, is_first=not turn.size)
            except (StorageFailed, MessageMalformed):
                # It may have been committed meanwhile, and stand in a block that the next snapshot tells of.
                turn.failed = True
                if turn.is_last:
                    turn.cold.append(at)
                continue
            if view.is_earlier and not found.pieces and not turn.size:
                turn.cold.append(
                    at
                )  # nothing is there up to where the next leader began, as where a log was compacted
                continue
            turn.read[at] = found
            turn.size += found.size

    async def _stretches(self, view: View, offset: int, upper: int, most: int, *, is_first: bool) -> ReadIn:
        """Batches from an offset on; one at least if it is the first partition, as brokers do (KIP-74)."""
        where = view.where
        pieces: list[Buffer] = []
        size, following = 0, offset
        for stretch in where.stretches[where.at(offset) :]:
            if stretch.base_offset > following or following >= upper or (size >= most and pieces):
                break  # what is between is not known here
            data = await self._stored.get(stretch.name, stretch.start, stretch.size, of_block=stretch.is_of_block)
            found = _batches(stretch, data, following, upper, most - size, is_first=is_first and not pieces)
            if not found.pieces:
                break
            pieces += found.pieces
            size += found.size
            following = found.end
            if following < stretch.next_offset:
                break
        return ReadIn(pieces, size, following)

    def _composed(self, request: Request, asked: FetchAsked, turn: _Turn) -> Answered:
        version, correlation = request.version, request.correlation
        cold = set(turn.cold)
        mine = [
            _fetched(asked, each, turn.views.get(at), turn.read.get(at))
            for at, each in enumerate(asked.partitions)
            if at not in cold
        ]
        if not cold:
            return Answered(fetch_answer(version, correlation, FetchAnswer(0, 0, 0, mine)))
        wait = 0 if turn.size else min(asked.max_wait_ms, _COLD_WAIT_MS) if mine else asked.max_wait_ms
        for_leader = asked._replace(
            max_wait_ms=wait,
            max_bytes=max(1, min(asked.max_bytes, self._most_bytes) - turn.size),
            session_id=0,
            session_epoch=_NO_SESSION,
            partitions=[asked.partitions[at] for at in turn.cold],
            forgotten=[],
        )

        def merge(told: memoryview) -> Sequence[Buffer]:
            leaders = read_fetch_answer(version, told)
            partitions = [*leaders.partitions, *mine]
            return fetch_answer(version, correlation, leaders._replace(session_id=0, partitions=partitions))

        return Answered([], fetch_request(version, correlation, request.client_id, for_leader), merge, len(cold))


def _is_for_the_leader(asked: PartitionAsked, view: View) -> bool:
    state, offset = view.state, asked.fetch_offset
    if asked.leader_epoch not in (-1, state.leader_epoch) or asked.last_fetched_epoch >= 0:
        return True
    return offset < state.log_start


def _batches(stretch: Stretch, data: memoryview, offset: int, upper: int, most: int, *, is_first: bool) -> ReadIn:
    """Those of a stretch that are wanted. Raises MessageMalformed if it isn't what it was said to be."""
    if stretch.leader_epoch >= 0:
        if stretch.placed_at >= upper or (not is_first and len(data) > most):
            return ReadIn([], 0, offset)
        return ReadIn([*placed(data, stretch.placed_at, stretch.leader_epoch)], len(data), stretch.next_offset)
    first = last = 0
    end, has_any = offset, False
    for batch in batches(data):
        if batch.next_offset <= offset:
            first = last = batch.at + batch.size
            continue
        has_any = True
        if batch.base_offset >= min(upper, stretch.next_offset):
            break
        if batch.at + batch.size - first > most and (last > first or not is_first):
            break
        last, end = batch.at + batch.size, batch.next_offset
    if not has_any:
        raise MessageMalformed(f"{stretch.name} does not have offset {offset}, which it was said to have")
    return ReadIn([data[first:last]] if last > first else [], last - first, end)


def _fetched(asked: FetchAsked, each: PartitionAsked, view: View | None, read: ReadIn | None) -> PartitionFetched:
    """Of one that may come to be known, or to where it is asked for: nothing, not even how far it is."""
    if view is None:
        return PartitionFetched(each.topic, each.partition, 0, -1, -1, -1, None, -1, [])
    state = view.state
    aborted = None
    if asked.isolation == _COMMITTED:
        aborted = view.where.ended(each.fetch_offset, read.end) if read else []
    return PartitionFetched(
        each.topic,
        each.partition,
        error=0,
        high_watermark=state.high_watermark,
        last_stable_offset=state.last_stable,
        log_start_offset=state.log_start,
        aborted=aborted,
        preferred_replica=-1,
        records=read.pieces if read else [],
    )
