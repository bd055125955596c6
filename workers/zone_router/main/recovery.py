"""Recover a main's state from its own objects; it keeps no other state.

Records that are in the WAL but not in blocks are collected again for the next block, with the batches of links
read from the router channel. So a restarted main needs nothing from the broker about the past, even for partitions
that another broker leads by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import structlog

from backend.kafka.wire.batches import Batch, batches, with_offset
from backend.kafka.wire.encoding import MessageMalformed
from workers.zone_router.block_index import read_block_index
from workers.zone_router.formats import wal
from workers.zone_router.formats.block import BlockMalformed, Followed, block_name, block_prefix
from workers.zone_router.formats.bulk import Main, is_object_name, sequence_of
from workers.zone_router.formats.wal import (
    Aborted,
    Begun,
    Direct,
    Gone,
    Link,
    Partition,
    WalMalformed,
    WalRecord,
    wal_name,
    wal_prefix,
)
from workers.zone_router.main.followed_batch import FollowedBatch, ended_transaction, open_before
from workers.zone_router.object_storage import ObjectMissing, ObjectStorage, StorageFailed

_CONCURRENT_READS = 32

_LOG = structlog.get_logger(__name__)


@dataclass
class StoredState:
    """State of a main as found in storage."""

    blocks: list[int]
    """Sequences of blocks, in order."""
    wal: list[int]
    known: dict[Partition, Followed]
    """Follow state of each partition, as of the last block."""
    wal_first: int
    """First object of the WAL that is not in blocks."""
    tail: list[FollowedBatch] = field(default_factory=list)
    """Batches of the WAL from there on."""

    @property
    def wal_end(self) -> int:
        return max(self.wal[-1] + 1 if self.wal else 0, self.wal_first)


async def read_stored_state(storage: ObjectStorage, main: Main) -> StoredState:
    """Read the state without the batches that are only in the WAL. Raises StorageFailed."""
    blocks = await _sequences(storage, block_prefix(main))
    known: dict[Partition, Followed] = {}
    wal_first = 0
    for sequence in reversed(blocks):
        name = block_name(main, sequence)
        try:
            index = await read_block_index(storage, name)
        except (BlockMalformed, ObjectMissing) as error:
            _LOG.error("zone_router.block_not_read", name=name, why=str(error))
            continue
        known, wal_first = dict(index.followed), index.wal_end
        break
    return StoredState(blocks, await _sequences(storage, wal_prefix(main)), known, wal_first)


async def with_tail(storage: ObjectStorage, main: Main, stored_state: StoredState) -> StoredState:
    """Add the batches that are only in the WAL. Raises StorageFailed."""
    tail = _Tail(stored_state.known)
    for sequence in stored_state.wal:
        if sequence < stored_state.wal_first:
            continue
        name = wal_name(main, sequence)
        try:
            await _replay(storage, name, tail)
        except (WalMalformed, ObjectMissing) as error:
            # Everything after it is followed again, as the partitions in the lost object are unknown.
            _LOG.error("zone_router.wal_not_read", name=name, why=str(error))
            break
    return replace(stored_state, tail=tail.found)


async def _replay(storage: ObjectStorage, name: str, tail: _Tail) -> None:
    """Collect the records of one WAL object. Raises WalMalformed, ObjectMissing, StorageFailed."""
    records = [record for record, _ in wal.read(await storage.whole(name))]
    for start in range(0, len(records), _CONCURRENT_READS):
        those = records[start : start + _CONCURRENT_READS]
        read = await asyncio.gather(*(_bytes_of(storage, each) for each in those))
        for record, data in zip(those, read, strict=True):
            tail.take(record, data)


async def _bytes_of(storage: ObjectStorage, record: WalRecord) -> memoryview | None:
    """Return a record's batch as in the log; None if it cannot be read any more."""
    if isinstance(record, Direct):
        return memoryview(record.batch)
    if not isinstance(record, Link):
        return memoryview(b"")
    try:
        sent = await storage.get(record.at.name, record.at.start, record.at.length)
        return memoryview(b"".join(with_offset(sent, record.base_offset, record.leader_epoch)))
    except (StorageFailed, MessageMalformed) as error:
        _LOG.warning("zone_router.link_not_read", why=str(error))
        return None


class _Tail:
    """Batches collected from the end of the WAL."""

    def __init__(self, known: dict[Partition, Followed]) -> None:
        self.found: list[FollowedBatch] = []
        self._open = {partition: dict(each.open) for partition, each in known.items()}
        self._lost: set[Partition] = set()
        """Partitions with an unreadable batch, which are followed again from there on."""

    def take(self, record: WalRecord, data: memoryview | None) -> None:
        partition = record.partition
        if isinstance(record, Aborted) or partition in self._lost:
            return
        if isinstance(record, Gone):
            self.found.append(FollowedBatch.gone(record))
            self._open.pop(partition, None)
            return
        if isinstance(record, Begun):
            self.found.append(FollowedBatch.begun(record))
            self._open[partition] = open_before(self._open.get(partition, {}), record.offset)
            return
        batch = None if data is None else _header(data)
        if batch is None or data is None or partition not in self._open:
            # In the last case, the block with the start of following is missing.
            self._lost.add(partition)
            return
        still_open = self._open[partition]
        aborted = ended_transaction(still_open, partition, batch, data)
        self.found.append(FollowedBatch.of(record, batch, data, batch.leader_epoch, still_open, aborted))


def _header(data: memoryview) -> Batch | None:
    try:
        return next(_whole(data), None)
    except MessageMalformed:
        return None


def _whole(data: memoryview) -> Iterator[Batch]:
    return (each for each in batches(data) if each.size == len(data))


async def _sequences(storage: ObjectStorage, prefix: str) -> list[int]:
    names = await storage.sizes(prefix)
    return sorted(sequence_of(name) for name in names if is_object_name(name))
