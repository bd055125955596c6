"""Write a main's block objects from the batches of its confirm WAL; delete expired blocks and WAL objects."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque

import structlog

from workers.zone_router.formats import block
from workers.zone_router.formats.block import Followed, block_name
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.wal import Aborted, Begun, Gone, Partition, wal_name
from workers.zone_router.main.confirm_wal import WalFenced
from workers.zone_router.main.followed_batch import FollowedBatch, open_before
from workers.zone_router.main.recovery import StoredState
from workers.zone_router.object_storage import ObjectStorage, StorageFailed

_PAUSE_SECONDS = 1.0

_LOG = structlog.get_logger(__name__)


class Blocks:
    """Collector of batches that are stored in the WAL; used by one event loop."""

    def __init__(self, storage: ObjectStorage, main: Main, stored_state: StoredState) -> None:
        self._storage, self._main = storage, main
        self._process = secrets.randbits(64)
        self._batches: dict[Partition, list[FollowedBatch]] = {}
        self._aborted: list[Aborted] = []
        self._cuts: dict[Partition, int] = {}
        now = asyncio.get_running_loop().time()
        self._kept: deque[tuple[int, float]] = deque((each, now) for each in stored_state.blocks)
        """Sequence of each block and the time at which it was written or first seen."""
        # Without blocks, start at the end of the WAL: there are never more blocks than WAL objects.
        self.end = stored_state.blocks[-1] + 1 if stored_state.blocks else stored_state.wal_end
        """Sequence of the next block."""
        self._wal_first = stored_state.wal[0] if stored_state.wal else stored_state.wal_first
        """Oldest object of the WAL that may exist."""
        self._gone: list[str] = []
        """Names of objects to delete."""
        self._deleting: asyncio.Task[None] | None = None
        self.followed = dict(stored_state.known)
        self.bytes = self.written_bytes = 0
        """Bytes collected for the next block, and bytes of written blocks."""
        self.wal_end = stored_state.wal_first
        """WAL sequence up to which the last block reaches (exclusive)."""
        for batch in stored_state.tail:
            self.take(batch)

    @property
    def first(self) -> int:
        return self._kept[0][0] if self._kept else self.end

    def take(self, batch: FollowedBatch) -> None:
        """Collect the next batch of the WAL."""
        if isinstance(batch.record, Begun):
            self._begin(batch.record)
            return
        if isinstance(batch.record, Gone):
            self._cut(batch.partition, 0)
            self.followed.pop(batch.partition, None)
            return
        before = self.followed[batch.partition]
        self._batches.setdefault(batch.partition, []).append(batch)
        self.bytes += len(batch.batch)
        if batch.aborted:
            self._aborted.append(batch.aborted)
        still_open = before.open if batch.open_after is None else batch.open_after
        self.followed[batch.partition] = before._replace(
            position=batch.next_offset, open=still_open, last_epoch=batch.batch_epoch
        )

    def _begin(self, begun: Begun) -> None:
        partition, position = begun.partition, begun.offset
        self._cut(partition, position)
        before = self.followed.get(partition)
        still_open = open_before(before.open, position) if before else {}
        last_epoch = before.last_epoch if before and before.position == position else -1
        self.followed[partition] = Followed(begun.leader_epoch, position, still_open, begun.begins, last_epoch)

    def _cut(self, partition: Partition, position: int) -> None:
        """Discard collected batches from `position` on; note the cut, which invalidates older blocks."""
        self._cuts[partition] = min(self._cuts.get(partition, position), position)
        those = self._batches.pop(partition, [])
        while those and those[-1].next_offset > position:
            self.bytes -= len(those.pop().batch)
        if those:
            self._batches[partition] = those
        self._aborted = [
            each for each in self._aborted if each.partition != partition or each.last_offset < position
        ]

    async def write(self, wal_end: int, keep_seconds: float) -> None:
        """Write the collected batches as a block that covers the WAL before `wal_end`; retry until it is stored.

        Raises WalFenced.
        """
        batches, self._batches = self._batches, {}
        aborted, self._aborted = self._aborted, []
        cuts, self._cuts = self._cuts, {}
        data = await asyncio.to_thread(
            block.written,
            {
                partition: [(each.base_offset, each.next_offset, each.batch) for each in those]
                for partition, those in batches.items()
            },
            aborted,
            dict(self.followed),
            cuts,
            wal_end,
            self._process,
        )
        name = block_name(self._main, self.end)
        while True:
            try:
                if await self._storage.put_own(name, data, block.HEAD_BYTES):
                    break
                raise WalFenced(f"another process writes as the main of {self._main}: {name} is taken")
            except StorageFailed as error:
                _LOG.warning("zone_router.block_not_written", why=str(error))
                await asyncio.sleep(_PAUSE_SECONDS)
        self._kept.append((self.end, asyncio.get_running_loop().time()))
        self.end += 1
        self.written_bytes += len(data)
        self.bytes -= sum(len(each.batch) for those in batches.values() for each in those)
        before, self.wal_end = self.wal_end, wal_end
        # Proxies that lag slightly still read the WAL objects between the last two blocks.
        self._gone += [wal_name(self._main, each) for each in range(self._wal_first, before)]
        self._wal_first = max(before, self._wal_first)
        self._gone += self._old(keep_seconds)
        if self._deleting is None or self._deleting.done():
            # In the background: a commit does not wait for deletions.
            self._deleting = asyncio.create_task(self._delete())

    def close(self) -> None:
        if self._deleting:
            self._deleting.cancel()

    def _old(self, keep_seconds: float) -> list[str]:
        found = []
        oldest = asyncio.get_running_loop().time() - keep_seconds
        while len(self._kept) > 1 and self._kept[0][1] < oldest:
            found.append(block_name(self._main, self._kept.popleft()[0]))
        return found

    async def _delete(self) -> None:
        """Delete unneeded objects; keep those that fail for the next time."""
        while self._gone:
            names, self._gone = self._gone, []
            try:
                await self._storage.delete(names)
            except StorageFailed as error:
                self._gone += names
                _LOG.warning("zone_router.not_deleted", why=str(error))
                return
