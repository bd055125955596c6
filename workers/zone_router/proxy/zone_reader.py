"""Answer Fetches within the zone: locations from a replica, bytes from caches and object storage.

Records from before the broker became leader come from the replicas of earlier leaders' mains. The rest is fetched
from the leader, a *cold read*: records older than what is known, partitions unknown to the replica, offsets out of
range, and all irregular requests, so that the leader responds with the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backend.kafka.wire.batches import batches, with_offset
from backend.kafka.wire.encoding import Buffer, MessageMalformed
from backend.kafka.wire.fetch_requests import FetchPartition, FetchRequest, fetch_request, read_fetch
from backend.kafka.wire.fetch_responses import FetchedPartition, FetchResponse, fetch_response, read_fetch_response
from backend.kafka.wire.requests import Request
from workers.zone_router.object_storage import StorageFailed
from workers.zone_router.proxy.index import Stretch
from workers.zone_router.proxy.object_cache import ObjectCache
from workers.zone_router.proxy.replica import Replica, View

_UNKNOWN_SECONDS = 5.0
"""Seconds to wait for an unknown partition, which may be new, and for a main that is unreachable."""
_STAYS_UNKNOWN_SECONDS = 30.0
_AHEAD_SECONDS = 5.0
"""Seconds to wait for an offset ahead of the replica, which may lag. Then the leader decides whether it is out of
range."""
_STAYS_LATE_SECONDS = 30.0
_MOST_WAITING = 10_000
_RETRY_SECONDS = 0.2
_COLD_WAIT_MS = 100
"""Milliseconds that the leader may wait for more while other partitions are answered here."""
_SESSION_NOT_FOUND = 70
_NO_SESSION = -1
_COMMITTED = 1


class ReadIn(NamedTuple):
    """Records read from one partition."""

    pieces: list[Buffer]
    size: int
    end: int
    """Next offset."""


@dataclass
class Answered:
    """The zone's part of a response; `cold` is the request to the leader, if one is needed."""

    pieces: Sequence[Buffer]
    cold: Sequence[Buffer] | None = None
    """Request to the leader, without its size."""
    merge: Callable[[memoryview], Sequence[Buffer]] | None = None
    """Function from the leader's response to the whole response. Raises MessageMalformed."""
    cold_partitions: int = 0


@dataclass
class _Turn:
    """One attempt to answer from what is available."""

    is_last: bool
    views: dict[int, View] = field(default_factory=dict)
    """Views by position in the request, as the other fields."""
    cold: list[int] = field(default_factory=list)
    read: dict[int, ReadIn] = field(default_factory=dict)
    size: int = 0
    is_full: bool = False
    """True if more is available than was requested."""
    failed: bool = False
    """True if something could not be read now."""


class ZoneReader:
    """Reader of one node for one main."""

    def __init__(
        self, replica: Replica, others: Callable[[], Sequence[Replica]], stored: ObjectCache, most_bytes: int
    ) -> None:
        """Set up; `others` returns the replicas of the cluster's other mains.

        A response has at most `most_bytes`, except for a single larger batch.
        """
        self._replica, self._others, self._stored, self._most_bytes = replica, others, stored, most_bytes
        self._unknown: dict[tuple[str | bytes, int], float] = {}
        """Time at which an unknown partition was first requested."""
        self._ahead: dict[tuple[str | bytes, int, int], float] = {}
        """Time at which an offset ahead of the replica was first requested."""
        self._before_since: dict[tuple[str | bytes, int], float] = {}
        """Time at which records from before the leader's epoch were first waited for."""
        self._late: dict[tuple[str | bytes, int], float] = {}
        """Time at which waiting for an offset ahead last failed. Otherwise every request would wait while the main
        is stalled."""

    async def answer(self, request: Request, message: memoryview) -> Answered:
        """Answer a Fetch. Raises MessageMalformed."""
        fetch = read_fetch(request, message)
        if fetch.session_id:
            refused = FetchResponse(0, _SESSION_NOT_FOUND, 0, [])
            return Answered(fetch_response(request.version, request.correlation, refused))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(0, fetch.max_wait_ms) / 1_000
        while True:
            moves, left = self._replica.moves(), deadline - loop.time()
            turn = _Turn(is_last=left <= 0)
            self._sort(fetch, turn, loop.time())
            await self._read(fetch, turn)
            enough = turn.size >= min(fetch.min_bytes, self._most_bytes // 2) or turn.is_full
            if turn.cold or turn.is_last or (enough and not turn.failed):
                return self._composed(request, fetch, turn)
            await asyncio.wait([moves], timeout=min(left, _RETRY_SECONDS) if turn.failed else left)

    def _sort(self, fetch: FetchRequest, turn: _Turn, now: float) -> None:
        """Decide for each partition whether to answer here, wait, or ask the leader."""
        for at, each in enumerate(fetch.partitions):
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
            elif before := self._before(view, each.fetch_offset, fetch.isolation):
                turn.views[at] = before
            elif each.fetch_offset < view.where.begins.offset and self._others_may_come(each, now):
                turn.failed = True
            else:
                turn.cold.append(at)

    def _before(self, view: View, offset: int, isolation: int) -> View | None:
        """Return a view of records from before the leader's main began to follow; None if unavailable.

        They come from the main whose last epoch is that of the record before, and so on. Records of an epoch were
        written by one leader: two logs that share an epoch are equal up to the last record that both have of it
        (KIP-101).
        """
        epoch, until = view.where.begins
        while offset < until:
            held = (each.held(view.state.partition) for each in self._others())
            where = next((each for each in held if each and each.last_epoch == epoch >= 0), None)
            if where is None:
                return None
            if where.has(offset):
                if isolation == _COMMITTED:
                    # A later leader ended the transactions that were open then, and its main reports them. A
                    # transaction whose marker the next leader did not have was not ended.
                    until = min(until, where.decided) if where.end <= until else 0
                return View(view.state, where, until, is_earlier=True) if offset < until else None
            epoch, until = where.begins.epoch_before, min(until, where.begins.offset)
        return None

    def _others_may_come(self, fetch: FetchPartition, now: float) -> bool:
        since = self._before_since.setdefault((fetch.topic, fetch.partition), now)
        return now - since < _UNKNOWN_SECONDS and any(
            each.away_since is not None and now - each.away_since < _UNKNOWN_SECONDS for each in self._others()
        )

    def _may_come(self, fetch: FetchPartition, now: float) -> bool:
        if (away_since := self._replica.away_since) is not None:
            return now - away_since < _UNKNOWN_SECONDS
        key = (fetch.topic, fetch.partition)
        if len(self._unknown) > _MOST_WAITING:
            self._unknown.clear()
        since = self._unknown.setdefault(key, now)
        if now - since > _STAYS_UNKNOWN_SECONDS:
            self._unknown[key] = since = now
        return now - since < _UNKNOWN_SECONDS

    def _may_catch_up(self, fetch: FetchPartition, now: float) -> bool:
        key = (fetch.topic, fetch.partition)
        if now - self._late.get(key, -_STAYS_LATE_SECONDS) < _STAYS_LATE_SECONDS:
            return False
        if len(self._ahead) > _MOST_WAITING:
            self._ahead.clear()
        place = (*key, fetch.fetch_offset)
        if now - self._ahead.setdefault(place, now) < _AHEAD_SECONDS:
            return True
        del self._ahead[place]
        self._late[key] = now
        return False

    async def _read(self, fetch: FetchRequest, turn: _Turn) -> None:
        """Read available records up to the requested bytes."""
        most_of_all = min(fetch.max_bytes, self._most_bytes)
        for at, view in list(turn.views.items()):
            each = fetch.partitions[at]
            upper = view.until
            if fetch.isolation == _COMMITTED:
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
                # It may have been committed meanwhile to a block that the next snapshot announces.
                turn.failed = True
                if turn.is_last:
                    turn.cold.append(at)
                continue
            if view.is_earlier and not found.pieces and not turn.size:
                # Nothing is left up to the start of the next leader, for example after compaction.
                turn.cold.append(at)
                continue
            turn.read[at] = found
            turn.size += found.size

    async def _stretches(self, view: View, offset: int, upper: int, most: int, *, is_first: bool) -> ReadIn:
        """Return the batches from an offset on; at least one for the first partition, as brokers do (KIP-74)."""
        where = view.where
        pieces: list[Buffer] = []
        size, following = 0, offset
        for stretch in where.stretches[where.at(offset) :]:
            if stretch.base_offset > following or following >= upper or (size >= most and pieces):
                break  # a gap that is unknown here
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

    def _composed(self, request: Request, fetch: FetchRequest, turn: _Turn) -> Answered:
        version, correlation = request.version, request.correlation
        cold = set(turn.cold)
        mine = [
            _fetched(fetch, each, turn.views.get(at), turn.read.get(at))
            for at, each in enumerate(fetch.partitions)
            if at not in cold
        ]
        if not cold:
            return Answered(fetch_response(version, correlation, FetchResponse(0, 0, 0, mine)))
        wait = 0 if turn.size else min(fetch.max_wait_ms, _COLD_WAIT_MS) if mine else fetch.max_wait_ms
        for_leader = fetch._replace(
            max_wait_ms=wait,
            max_bytes=max(1, min(fetch.max_bytes, self._most_bytes) - turn.size),
            session_id=0,
            session_epoch=_NO_SESSION,
            partitions=[fetch.partitions[at] for at in turn.cold],
            forgotten=[],
        )

        def merge(answer: memoryview) -> Sequence[Buffer]:
            leaders = read_fetch_response(version, answer)
            partitions = [*leaders.partitions, *mine]
            return fetch_response(version, correlation, leaders._replace(session_id=0, partitions=partitions))

        return Answered([], fetch_request(version, correlation, request.client_id, for_leader), merge, len(cold))


def _is_for_the_leader(fetch: FetchPartition, view: View) -> bool:
    state, offset = view.state, fetch.fetch_offset
    if fetch.leader_epoch not in (-1, state.leader_epoch) or fetch.last_fetched_epoch >= 0:
        return True
    return offset < state.log_start


def _batches(stretch: Stretch, data: memoryview, offset: int, upper: int, most: int, *, is_first: bool) -> ReadIn:
    """Return the requested batches of a stretch. Raises MessageMalformed if its content is not as expected."""
    if stretch.leader_epoch >= 0:
        if stretch.placed_at >= upper or (not is_first and len(data) > most):
            return ReadIn([], 0, offset)
        return ReadIn(
            [*with_offset(data, stretch.placed_at, stretch.leader_epoch)], len(data), stretch.next_offset
        )
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
        raise MessageMalformed(f"{stretch.name} lacks offset {offset}, which it should have")
    return ReadIn([data[first:last]] if last > first else [], last - first, end)


def _fetched(
    fetch: FetchRequest, each: FetchPartition, view: View | None, read: ReadIn | None
) -> FetchedPartition:
    """Return the response for a partition; empty and without bounds if it is waited for."""
    if view is None:
        return FetchedPartition(each.topic, each.partition, 0, -1, -1, -1, None, -1, [])
    state = view.state
    aborted = None
    if fetch.isolation == _COMMITTED:
        aborted = view.where.ended(each.fetch_offset, read.end) if read else []
    return FetchedPartition(
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
