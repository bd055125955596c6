"""Where a main stood, read from its own objects: it keeps nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from workers.zone_router.block_index import read_block_index
from workers.zone_router.formats import wal
from workers.zone_router.formats.block import Followed, block_name, block_prefix
from workers.zone_router.formats.bulk import Main, is_object_name
from workers.zone_router.formats.wal import Aborted, Begun, Partition, WalMalformed, wal_name, wal_prefix
from workers.zone_router.object_storage import ObjectStorage, StorageFailed


@dataclass
class Stood:
    """What storage tells of a main."""

    blocks: list[int]
    """Sequences, in order."""
    wal: list[int]
    known: dict[Partition, Followed]
    """Of each partition: up to where blocks have it."""
    stored: dict[Partition, int]
    """Up to where blocks or the WAL have it."""
    wal_first: int
    """The first object of the WAL that is not in blocks."""

    @property
    def wal_end(self) -> int:
        return max(self.wal[-1] + 1 if self.wal else 0, self.wal_first)

    @property
    def block_end(self) -> int:
        return self.blocks[-1] + 1 if self.blocks else 0


async def where_it_stood(storage: ObjectStorage, main: Main) -> Stood:
    """Raises StorageFailed, also for objects that cannot be read."""
    blocks = await _sequences(storage, block_prefix(main))
    known: dict[Partition, Followed] = {}
    wal_first = 0
    if blocks:
        index = await read_block_index(storage, block_name(main, blocks[-1]))
        known, wal_first = dict(index.followed), index.wal_end
    objects = await _sequences(storage, wal_prefix(main))
    stored = {partition: each.position for partition, each in known.items()}
    for sequence in objects:
        if sequence >= wal_first:
            await _replay(storage, wal_name(main, sequence), known, stored)
    return Stood(blocks, objects, known, stored, wal_first)


async def _replay(
    storage: ObjectStorage, name: str, known: dict[Partition, Followed], stored: dict[Partition, int]
) -> None:
    try:
        for record, _ in wal.read(await storage.whole(name)):
            if isinstance(record, Aborted):
                continue
            if isinstance(record, Begun):
                stored[record.partition] = record.offset
                _begin(record, known)
            else:
                stored[record.partition] = record.next_offset
    except WalMalformed as error:
        raise StorageFailed(f"{name}: {error}") from None


def _begin(begun: Begun, known: dict[Partition, Followed]) -> None:
    before = known.get(begun.partition)
    if before is None:
        known[begun.partition] = Followed(begun.leader_epoch, begun.offset, begun.offset, {})
        return
    position = min(before.position, begun.offset)
    still_open = {producer: first for producer, first in before.open.items() if first < position}
    known[begun.partition] = Followed(begun.leader_epoch, before.start, position, still_open)


async def _sequences(storage: ObjectStorage, prefix: str) -> list[int]:
    names = await storage.sizes(prefix)
    return sorted(int(name.rpartition("/")[2]) for name in names if is_object_name(name))
