"""A proxy's replica of a main's index: progress by polls, locations from the main's objects.

A poll returns the main's progress; the batches since then are read from its WAL, and locations of committed
batches from its blocks. No record data comes from the main itself. Source: the zone router's document, "Read".
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from backend.kafka.wire.batches import leader_epoch
from workers.zone_router.block_index import read_block_index
from workers.zone_router.formats import wal
from workers.zone_router.formats.block import BlockIndex, BlockMalformed, block_name, block_prefix
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.route_messages import Snapshot, State
from workers.zone_router.formats.wal import Aborted, Begun, Direct, Gone, Link, Partition, wal_name, wal_prefix
from workers.zone_router.object_storage import ObjectMissing, ObjectStorage, StorageFailed
from workers.zone_router.proxy.index import Index, Stretch
from workers.zone_router.proxy.object_cache import ObjectCache
from workers.zone_router.proxy.polls import Polls
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic

_RETRY_SECONDS = 0.3
_CONCURRENT_READS = 16
_WANTED_SECONDS = 60.0
"""Seconds after a client's last request for which a partition's batches are read ahead."""

_LOG = structlog.get_logger(__name__)


class View(NamedTuple):
    """A readable part of a partition that the main's broker leads."""

    state: State
    where: Index
    until: int
    """Offset before which all may be read; by read_committed, too, if its transactions are decided."""
    is_earlier: bool = False
    """True for records of an earlier leader."""


class Replica:
    """Replica of one main; used by one event loop."""

    def __init__(
        self, node: int, main: Main, at: MainAt, storage: ObjectStorage, stored: ObjectCache, traffic: Traffic
    ) -> None:
        self._node, self._main, self._at = node, main, at
        self._storage, self._stored, self._traffic = storage, stored, traffic
        self._indexes: dict[Partition, Index] = {}
        self._states: dict[Partition, State] = {}
        self._names: dict[tuple[str, int], Partition] = {}
        self._wal = self._first_block = self._block = 0
        """Next sequences to read of the WAL and of blocks, and the first known block."""
        self._moved: asyncio.Future[None] | None = None
        self.away_since: float | None = asyncio.get_running_loop().time()
        """Loop time since which the main's progress is unknown; None while it is known."""

    def view(self, topic: str | bytes, number: int) -> View | None:
        """Return the view of a partition that the main's broker leads, by the topic's name or id."""
        partition = Partition(topic, number) if isinstance(topic, bytes) else self._names.get((topic, number))
        if partition is None or (state := self._states.get(partition)) is None:
            return None
        return View(state, self._index(partition), state.end)

    def held(self, partition: Partition) -> Index | None:
        """Return the index of a partition, even if the main's broker no longer leads it."""
        return self._indexes.get(partition)

    def moves(self) -> asyncio.Future[None]:
        """Return a future that is done when something may have changed."""
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    async def run(self) -> None:
        """Follow the main until cancelled; reconnect whenever it is lost."""
        logged = ""
        while True:
            polls = Polls(self._node, self._main, self._at, self._traffic)
            try:
                await polls.connect()
                while True:
                    await self._follow_on(polls, await polls.poll())
            except Exception as error:  # noqa: BLE001 - otherwise readers would wait for ever; the leader serves them meanwhile
                if repr(error) != logged:
                    _LOG.warning("zone_router.main_not_followed", main=self._main, why=str(error) or repr(error))
                logged = repr(error)
            finally:
                polls.close()
                self._states, self._names = {}, {}
                if self.away_since is None:
                    self.away_since = asyncio.get_running_loop().time()
                self._wake()
            await asyncio.sleep(_RETRY_SECONDS)

    def _wake(self) -> None:
        moved, self._moved = self._moved, None
        if moved and not moved.done():
            moved.set_result(None)

    async def _follow_on(self, polls: Polls, snapshot: Snapshot) -> None:
        """Apply a snapshot; retry while storage fails, as readers rather wait than fetch from another zone."""
        while True:
            try:
                await self._follow(snapshot)
                return
            except StorageFailed as error:
                # A deleted object does not come back: its data is in a block, which a new poll announces.
                if not polls.is_open or isinstance(error, ObjectMissing):
                    raise
                _LOG.warning("zone_router.storage_away", why=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self, snapshot: Snapshot) -> None:
        """Apply a snapshot: read the new objects, then publish the new bounds, so that readers see no gap."""
        if snapshot.wal_end < self._wal or snapshot.end_block < self._block:  # storage was replaced
            self._indexes, self._wal, self._block = {}, 0, 0
            for prefix in (wal_prefix(self._main), block_prefix(self._main)):
                self._stored.forget(prefix)
        if self._wal < snapshot.wal_first:
            await self._read_blocks(snapshot)
            self._wal = snapshot.wal_first
        await self._read_wal(snapshot.wal_end)
        if not await self._read_blocks(snapshot):
            self._wal = snapshot.wal_first
            await self._read_wal(snapshot.wal_end)
        for partition in snapshot.left:
            if before := self._states.pop(partition, None):
                self._names.pop((before.topic, partition.number), None)
        for state in snapshot.states:
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
            sequences = range(self._wal, min(end, self._wal + _CONCURRENT_READS))
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
        # Read ahead into memory; failed reads are retried by the readers that need them.
        await asyncio.gather(
            *(self._stored.get(each, first, last - first) for each, (first, last) in ahead.items()),
            return_exceptions=True,
        )

    async def _read_blocks(self, snapshot: Snapshot) -> bool:
        """Read the indexes of new blocks; return False if one was missing and only later blocks are known."""
        is_whole = self._block >= snapshot.first_block
        if not is_whole:
            self._indexes = {}  # some blocks were deleted before they were read
        for sequence in range(self._first_block, min(snapshot.first_block, self._block)):
            for index in self._indexes.values():
                index.forget(block_name(self._main, sequence))
        self._first_block, self._block = snapshot.first_block, max(self._block, snapshot.first_block)
        while self._block < snapshot.end_block:
            sequences = range(self._block, min(snapshot.end_block, self._block + _CONCURRENT_READS))
            names = [block_name(self._main, each) for each in sequences]
            reading = (read_block_index(self._storage, name) for name in names)
            found = await asyncio.gather(*reading, return_exceptions=True)
            for name, block in zip(names, found, strict=True):
                if isinstance(block, BlockMalformed | ObjectMissing):
                    # Lost. The leader serves its records and all before, as aborted transactions are unknown.
                    _LOG.error("zone_router.block_not_read", name=name, why=str(block))
                    self._indexes, is_whole = {}, False
                elif isinstance(block, BaseException):
                    raise block
                else:
                    self._move(name, block)
                self._block += 1
        return is_whole

    def _move(self, name: str, block: BlockIndex) -> None:
        if self._wal < block.wal_end:  # else the WAL has the cuts
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
