"""Follow a broker's log, write the location of every batch to the confirm WAL, and commit batches into blocks.

    broker's log -> Follower -> Confirmer -> ConfirmWal -> (stored) -> Blocks
                                                    \\-> Snapshots -> proxies

So offsets are those of the log by construction, and a failure of a main leaves no gap: batches that are not found
among the forwarded requests are stored whole. Proxies of other zones poll the progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from backend.kafka.wire.batches import Batch
from backend.kafka.wire.endpoints import Address
from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.route_messages import State
from workers.zone_router.formats.wal import Begun, Direct, Gone, Link, Partition
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.confirm_wal import ConfirmWal, WalFenced
from workers.zone_router.main.followed_batch import FollowedBatch, ended_transaction
from workers.zone_router.main.follower import Follower, Led
from workers.zone_router.main.forwarded_batches import ForwardedBatches, ForwardedRequest
from workers.zone_router.main.recovery import StoredState, read_stored_state, with_tail
from workers.zone_router.main.snapshots import Snapshots
from workers.zone_router.object_storage import ObjectStorage, StorageFailed

_RETRY_SECONDS = 1.0
_MOST_ATTEMPTS = 20
"""Most names to try before giving up to another process."""
_CHECK_SECONDS = 0.1

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ConfirmLimits:
    """Limits of a main."""

    wal_window_seconds: float = 0.01
    """Least seconds between two objects of the WAL."""
    block_bytes: int = 16 * 1024 * 1024
    """Collected bytes at which a block is written; at twice as many, following pauses."""
    commit_seconds: float = 10.0
    """Most seconds between two blocks."""
    keep_seconds: float = 3_600.0
    """Retention of blocks in seconds."""
    all_history: bool = False
    """True if partitions that are followed for the first time start at their first record."""


class _Over(NamedTuple):
    """An epoch of which nothing is in flight any more, and the number of batches added to the WAL by then."""

    epoch: int
    added: int


class Confirmer:
    """Follow, confirm and commit for one main; used by one event loop."""

    def __init__(
        self,
        main: Main,
        broker: Callable[[], Address | None],
        storage: ObjectStorage,
        limits: ConfirmLimits,
        oldest_carried: Callable[[], int | None],
    ) -> None:
        """Set up; `oldest_carried` returns the epoch of the oldest unfinished Route."""
        self._main, self._storage, self._limits = main, storage, limits
        self.forwarded_batches = ForwardedBatches()
        self.snapshots = Snapshots()
        self._follower = Follower(main, broker, self, all_history=limits.all_history)
        self._wal = ConfirmWal(storage, main, limits.wal_window_seconds, self._stored)
        self._blocks: Blocks | None = None
        self._ends: dict[Partition, int] = {}
        """Offset up to which the WAL or blocks have each partition."""
        self._led: dict[Partition, Led] = {}
        self._known: dict[Partition, Followed] = {}
        self._names: dict[tuple[str, int], Partition] = {}
        self._waiting: dict[Partition, list[tuple[int, Callable[[], None]]]] = {}
        self._moved = asyncio.Event()
        self._oldest_carried = oldest_carried
        self._fenced = 0
        self.reported_epoch = 0
        """Epoch up to which all data is in blocks or was never appended."""
        self.links = self.directs = 0
        """Number of batches stored as links, and of those stored whole."""

    # Called by the main.

    def poll(self) -> None:
        """Poll for partitions that are not followed yet."""
        self._follower.poll()

    def knows(self, name: tuple[str | bytes, int]) -> bool:
        return self._partition(name) in self._led

    def answered(self, forwarded: ForwardedRequest, answer: memoryview) -> None:
        """Apply the broker's response to a forwarded request."""
        self.forwarded_batches.answered(forwarded, answer)
        for one in forwarded.batches:
            if (partition := self._partition(one.name)) and (led := self._led.get(partition)):
                self.forwarded_batches.passed(one.name, led.position)

    def when_all_are_stored(self, forwarded: ForwardedRequest, then: Callable[[], None]) -> None:
        """Call `then` once all appended batches of a request are in the WAL, except of partitions not led here."""
        missing = [
            (partition, one.offset + one.offsets)
            for one in forwarded.batches
            if one.offset is not None
            and (partition := self._partition(one.name)) in self._led
            and self._ends.get(partition, 0) < one.offset + one.offsets
        ]
        left = len(missing)
        if not left:
            then()

        def stored() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for partition, offset in missing:
            self._waiting.setdefault(partition, []).append((offset, stored))

    def _partition(self, name: tuple[str | bytes, int]) -> Partition | None:
        topic, index = name
        return Partition(topic, index) if isinstance(topic, bytes) else self._names.get((topic, index))

    def batches(self) -> dict[str, int]:
        """Return the number of batches by how they are stored."""
        return {"link": self.links, "whole": self.directs}

    def written(self) -> dict[str, int]:
        """Return the bytes of written objects by kind."""
        return {"wal": self._wal.written_bytes, "blocks": self._blocks.written_bytes if self._blocks else 0}

    async def run(self) -> None:
        """Run until cancelled. Raises WalFenced."""
        stored_state = await self._begun()
        self._blocks = Blocks(self._storage, self._main, stored_state)
        self._known = dict(self._blocks.followed)
        self._ends = {partition: each.position for partition, each in self._known.items()}
        self._report_reached()
        tasks = [asyncio.create_task(each) for each in (self._wal.run(), self._follower.run(), self._commit_on())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._blocks.close()

    async def _begun(self) -> StoredState:
        """Take the next name of the WAL, which stops an older process of this main; then read the stored state."""
        attempts, is_ours = 0, False
        while attempts < _MOST_ATTEMPTS:
            try:
                stored_state = await read_stored_state(self._storage, self._main)
                if is_ours:
                    return await with_tail(self._storage, self._main, stored_state)
                is_ours = await self._wal.begin(stored_state.wal_end)
                if is_ours:
                    continue
                attempts += 1
            except StorageFailed as error:
                _LOG.warning("zone_router.storage_away", why=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
        raise WalFenced(
            f"no name of the WAL could be taken as the main of {self._main}; check for another process of it"
        )

    # Called by the follower.

    @property
    def known(self) -> Mapping[Partition, Followed]:
        return self._known

    def leads(self, led: Led) -> None:
        partition = led.partition
        # The log may have been truncated there.
        self._ends[partition] = min(self._ends.get(partition, led.position), led.position)
        self._wal.add(FollowedBatch.begun(Begun(partition, led.leader_epoch, led.position, led.begins)))
        self._led[partition] = led
        self._names[led.topic, partition.number] = partition
        self._report(led)

    def left(self, partition: Partition) -> None:
        led = self._led.pop(partition)
        self._known[partition] = led.followed
        self._names.pop((led.topic, partition.number), None)
        self.snapshots.left(partition)
        for _, then in self._waiting.pop(partition, []):
            then()  # the broker has it; the new leader's main confirms it

    def gone(self, partition: Partition) -> None:
        self._known.pop(partition, None)
        self._ends.pop(partition, None)
        self._wal.add(FollowedBatch.gone(Gone(partition)))

    async def room(self) -> None:
        assert self._blocks is not None
        while self._wal.waiting_bytes + self._blocks.bytes > 2 * self._limits.block_bytes:
            self._moved.clear()
            await self._moved.wait()

    def took(self, led: Led, found: Sequence[tuple[Batch, memoryview, int]]) -> None:
        names = ((led.topic, led.partition.number), (led.partition.topic_id, led.partition.number))
        for batch, data, gap in found:
            record = self._record(led.partition, names, batch, data, gap)
            aborted = ended_transaction(led.open, led.partition, batch, data)
            self._wal.add(FollowedBatch.of(record, batch, data, led.leader_epoch, led.open, aborted))
        for name in names:
            self.forwarded_batches.passed(name, led.position)
        if not found:
            self._report(led)

    def _record(
        self,
        partition: Partition,
        names: tuple[tuple[str, int], tuple[bytes, int]],
        batch: Batch,
        data: memoryview,
        gap: int,
    ) -> Link | Direct:
        base, timestamp = batch.base_offset, batch.max_timestamp
        if at := self.forwarded_batches.find(names, data):
            self.links += 1
            return Link(partition, batch.leader_epoch, batch.last_offset_delta, at, base, timestamp, gap)
        self.directs += 1
        return Direct(partition, base, batch.next_offset, data, gap)

    # Called by the WAL.

    def _stored(self, batches: Sequence[FollowedBatch]) -> None:
        assert self._blocks is not None
        touched: dict[Partition, None] = {}
        for each in batches:
            self._blocks.take(each)
            led = self._led.get(each.partition)
            # A batch of another epoch may lie after the current start of following.
            if led is not None and led.leader_epoch == each.leader_epoch:
                self._ends[each.partition] = each.next_offset
                touched[each.partition] = None
        self._report_reached()
        for partition in touched:
            self._report(self._led[partition])
            self._confirm(partition)
        self._moved.set()

    def _confirm(self, partition: Partition) -> None:
        if waiting := self._waiting.get(partition):
            end = self._ends[partition]
            self._waiting[partition] = [each for each in waiting if each[0] > end]
            for offset, then in waiting:
                if offset <= end:
                    then()

    def _report(self, led: Led) -> None:
        end, stable = self._ends.get(led.partition, led.position), led.last_stable
        is_behind = end < max(led.position, led.high_watermark)
        if is_behind and self._blocks and (stored := self._blocks.followed.get(led.partition)):
            # A transaction's outcome is in the WAL with its marker; until then it counts as open.
            stable = min([stable, *stored.open.values()])
        self.snapshots.update(
            State(
                led.partition,
                led.topic,
                led.leader_epoch,
                led.log_start,
                end,
                max(led.high_watermark, end),
                stable,
            )
        )

    # Commits.

    def fence(self, epoch: int) -> None:
        """Commit everything up to this epoch, so that its bulks may be deleted."""
        self._fenced = max(self._fenced, epoch)

    async def _commit_on(self) -> None:
        assert self._blocks is not None
        loop = asyncio.get_running_loop()
        last, over = loop.time(), _Over(0, 0)
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self.forwarded_batches.sweep(loop.time())
            if over.epoch < self._fenced and not self._is_under_way(self._fenced):
                over = _Over(self._fenced, self._wal.added)
            is_over = self.reported_epoch < over.epoch and self._wal.done >= over.added
            is_late = loop.time() - last >= self._limits.commit_seconds
            if is_over or is_late or self._blocks.bytes >= self._limits.block_bytes:
                last = loop.time()
                await self._commit()
                if is_over:
                    self.reported_epoch = over.epoch

    def _is_under_way(self, epoch: int) -> bool:
        """Return whether data of this or an older epoch may still reach the log or the WAL."""
        oldest = [self._oldest_carried(), self.forwarded_batches.oldest_epoch()]
        return any(each is not None and each <= epoch for each in oldest)

    async def _commit(self) -> None:
        """Write all that is in the WAL to blocks."""
        assert self._blocks is not None
        end = self._wal.end
        if end > self._blocks.wal_end:
            await self._blocks.write(end, self._limits.keep_seconds)
            self._report_reached()
            self._moved.set()

    def _report_reached(self) -> None:
        assert self._blocks is not None
        self.snapshots.reached(self._blocks.wal_end, self._wal.end, self._blocks.first, self._blocks.end)
