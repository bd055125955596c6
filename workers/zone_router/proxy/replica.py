"""What a proxy knows of a main's log: asked for again and again, and replayed from the main's own objects.

A poll is answered by how far the main is; what is between is read from its WAL, and where batches are when they
have been committed, from its blocks. No byte of a batch comes from the main itself. Source: the zone router's
document, "Read".
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from backend.kafka.wire.batches import leader_epoch
from workers.zone_router.block_index import read_block_index
from workers.zone_router.document import MainAt
from workers.zone_router.formats import wal
from workers.zone_router.formats.block import BlockIndex, BlockMalformed, block_name, block_prefix
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.route_messages import Snapshot, State
from workers.zone_router.formats.wal import Aborted, Begun, Direct, Gone, Link, Partition, wal_name, wal_prefix
from workers.zone_router.object_storage import ObjectMissing, ObjectStorage, StorageFailed
from workers.zone_router.proxy.index import Index, Stretch
from workers.zone_router.proxy.polls import Polls
from workers.zone_router.proxy.stored import Stored
from workers.zone_router.traffic import Traffic

_AGAIN_SECONDS = 0.3
_SIDE_BY_SIDE = 16
_WANTED_SECONDS = 60.0
"""Batches of a partition are read ahead so long after somebody has asked for it."""

_LOG = structlog.get_logger(__name__)


class View(NamedTuple):
    """A partition that the main's broker leads."""

    state: State
    where: Index
    until: int
    """Before this offset all of it may be read; of transactions that are not decided, by who wants these, too."""
    is_earlier: bool = False
    """Whether it is what a leader before has left."""


class Replica:
    """Of one main; used by one event loop."""

    def __init__(
        self, node: int, main: Main, at: MainAt, storage: ObjectStorage, stored: Stored, traffic: Traffic
    ) -> None:
        self._node, self._main, self._at = node, main, at
        self._storage, self._stored, self._traffic = storage, stored, traffic
        self._indexes: dict[Partition, Index] = {}
        self._states: dict[Partition, State] = {}
        self._names: dict[tuple[str, int], Partition] = {}
        self._wal = self._first_block = self._block = 0
        """The sequences of the WAL and of blocks that are read next, and the first block that is known."""
        self._moved: asyncio.Future[None] | None = None
        self.away_since: float | None = asyncio.get_running_loop().time()
        """Since when it is not known how far the main is, by the loop's clock; None while it is known."""

    def view(self, topic: str | bytes, number: int) -> View | None:
        """Of a partition that the main's broker leads, by the topic's name or id."""
        partition = Partition(topic, number) if isinstance(topic, bytes) else self._names.get((topic, number))
        if partition is None or (state := self._states.get(partition)) is None:
            return None
        return View(state, self._index(partition), state.end)

    def held(self, partition: Partition) -> Index | None:
        """What is known of a partition, also of one that the main's broker does not lead any more."""
        return self._indexes.get(partition)

    def moves(self) -> asyncio.Future[None]:
        """Done when something has moved, or may have."""
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    async def run(self) -> None:
        """Until it is cancelled; a main that is away is tried again and again."""
        said = ""
        while True:
            polls = Polls(self._node, self._main, self._at, self._traffic)
            try:
                await polls.connect()
                while True:
                    await self._follow_on(polls, await polls.poll())
            except Exception as error:  # noqa: BLE001 - readers would wait for ever; the leader has what they want
                if repr(error) != said:
                    _LOG.warning("zone_router.main_not_followed", main=self._main, why=str(error) or repr(error))
                said = repr(error)
            finally:
                polls.close()
                self._states, self._names = {}, {}
                if self.away_since is None:
                    self.away_since = asyncio.get_running_loop().time()
                self._wake()
            await asyncio.sleep(_AGAIN_SECONDS)

    def _wake(self) -> None:
        moved, self._moved = self._moved, None
        if moved and not moved.done():
            moved.set_result(None)

    async def _follow_on(self, polls: Polls, told: Snapshot) -> None:
        """Storage that fails is asked again: readers wait meanwhile, rather than go to another zone."""
        while True:
            try:
                await self._follow(told)
                return
            except StorageFailed as error:
                # What is gone does not come back: it is in a block of which the main tells who asks anew.
                if not polls.is_open or isinstance(error, ObjectMissing):
                    raise
                _LOG.warning("zone_router.storage_away", why=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow(self, told: Snapshot) -> None:
        """What is told comes after what it tells of: a reader never sees an end before which nothing is known."""
        if told.wal_end < self._wal or told.end_block < self._block:  # the storage is another one
            self._indexes, self._wal, self._block = {}, 0, 0
            for prefix in (wal_prefix(self._main), block_prefix(self._main)):
                self._stored.forget(prefix)
        if self._wal < told.wal_first:
            await self._read_blocks(told)
            self._wal = told.wal_first
        await self._read_wal(told.wal_end)
        if not await self._read_blocks(told):
            self._wal = told.wal_first
            await self._read_wal(told.wal_end)
        for partition in told.left:
            if before := self._states.pop(partition, None):
                self._names.pop((before.topic, partition.number), None)
        for state in told.states:
            self._set(state)
        self.away_since = None
        self._wake()

    def _set(self, state: State) -> None:
        before = self._states.get(state.partition)
        if not state.topic and before:
            state = state._replace(topic=before.topic)
        self._states[state.partition] = state
        index = self._index(state.partition)
        index.decided = max(index.decided, min(state.last_stable, state.end))
        self._names[state.topic, state.partition.number] = state.partition

    def _index(self, partition: Partition) -> Index:
        found = self._indexes.get(partition)
        if found is None:
            found = self._indexes[partition] = Index()
        return found

    async def _read_wal(self, end: int) -> None:
        while self._wal < end:
            sequences = range(self._wal, min(end, self._wal + _SIDE_BY_SIDE))
            names = [wal_name(self._main, each) for each in sequences]
            found = await asyncio.gather(*map(self._stored.whole, names), return_exceptions=True)
            for name, data in zip(names, found, strict=True):
                if isinstance(data, BaseException):
                    raise data
                await self._replay(name, data)
                self._wal += 1

    async def _replay(self, name: str, data: memoryview) -> None:
        ahead: dict[str, tuple[int, int]] = {}
        late = asyncio.get_running_loop().time() - _WANTED_SECONDS
        for record, start in wal.read(data):
            if isinstance(record, Gone):
                self._indexes[record.partition] = Index.anew(self._wal)
                continue
            index = self._index(record.partition)
            if isinstance(record, Aborted):
                index.note(record)
                continue
            if isinstance(record, Begun):
                index.begin(record, self._wal)
                continue
            stretch = _stretch(name, record, start)
            index.append(
                stretch, leader_epoch(record.batch) if isinstance(record, Direct) else record.leader_epoch
            )
            if index.wanted_at > late and not isinstance(record, Direct):
                first, last = ahead.get(stretch.name, (stretch.start, 0))
                ahead[stretch.name] = (min(first, stretch.start), max(last, stretch.start + stretch.size))
        # Who waits for them finds them in memory; what cannot be read now is asked for again by whoever needs it.
        await asyncio.gather(
            *(self._stored.get(each, first, last - first) for each, (first, last) in ahead.items()),
            return_exceptions=True,
        )

    async def _read_blocks(self, told: Snapshot) -> bool:
        """False if one is gone, and nothing is known any more but what is behind it in blocks."""
        is_whole = self._block >= told.first_block
        if not is_whole:
            self._indexes = {}  # what was told in blocks that went before they were read
        for sequence in range(self._first_block, min(told.first_block, self._block)):
            for index in self._indexes.values():
                index.forget(block_name(self._main, sequence))
        self._first_block, self._block = told.first_block, max(self._block, told.first_block)
        while self._block < told.end_block:
            sequences = range(self._block, min(told.end_block, self._block + _SIDE_BY_SIDE))
            names = [block_name(self._main, each) for each in sequences]
            reading = (read_block_index(self._storage, name) for name in names)
            found = await asyncio.gather(*reading, return_exceptions=True)
            for name, block in zip(names, found, strict=True):
                if isinstance(block, BlockMalformed | ObjectMissing):
                    # Lost; what was in it, and before it, is the leader's to give: it would have told which
                    # transactions were aborted.
                    _LOG.error("zone_router.block_not_read", name=name, why=str(block))
                    self._indexes, is_whole = {}, False
                elif isinstance(block, BaseException):
                    raise block
                else:
                    self._move(name, block)
                self._block += 1
        return is_whole

    def _move(self, name: str, block: BlockIndex) -> None:
        if self._wal < block.wal_end:  # else the WAL has told
            for partition, offset in block.cuts.items():
                self._index(partition).was_cut(offset)
        aborted: dict[Partition, list[Aborted]] = {}
        for each in block.aborted:
            aborted.setdefault(each.partition, []).append(each)
        for partition in {**block.followed, **block.segments}:
            stretches = [
                Stretch(*each[:2], name, *each[2:], leader_epoch=-1, placed_at=-1, is_of_block=True)
                for each in block.segments.get(partition, ())
            ]
            followed = block.followed.get(partition)
            self._index(partition).committed(stretches, aborted.get(partition, ()), followed, block.wal_end)
        for index in self._indexes.values():
            index.passed(block.wal_end)
        kept = self._states.keys() | block.followed.keys()
        self._indexes = {key: each for key, each in self._indexes.items() if each.is_needed or key in kept}


def _stretch(name: str, record: Link | Direct, start: int) -> Stretch:
    base, end = record.base_offset - record.gap, record.next_offset
    if isinstance(record, Direct):
        return Stretch(base, end, name, start, len(record.batch), -1, -1, False)
    at = record.at
    return Stretch(base, end, at.name, at.start, at.length, record.leader_epoch, record.base_offset, False)
