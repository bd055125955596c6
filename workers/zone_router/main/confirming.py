"""What a main does beside handing over requests: it follows its broker's log, stores where the bytes of every
batch are (the confirm WAL), and commits them into block objects; readers of other zones are told how far it is.

    broker's log -> Follower -> Confirming -> ConfirmWal -> (stored) -> Blocks
                                                    \\-> Snapshots -> proxies

So offsets are those of the log by construction, and whatever happens to a main leaves no gap: what it can't find
among the requests that it handed over is stored whole.
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
from workers.zone_router.main.appended import Appended, Handed
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.confirm_wal import ConfirmWal, WalFenced
from workers.zone_router.main.followed_batch import FollowedBatch, ended_transaction
from workers.zone_router.main.follower import Follower, Led
from workers.zone_router.main.recovery import Stood, where_it_stood, with_tail
from workers.zone_router.main.snapshots import Snapshots
from workers.zone_router.object_storage import ObjectStorage, StorageFailed

_AGAIN_SECONDS = 1.0
_MOST_ATTEMPTS = 20
"""Names that another process took before us."""
_LOOK_SECONDS = 0.1

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ConfirmLimits:
    """Of a main."""

    wal_window_seconds: float = 0.01
    """At least so long from one object of the WAL to the next."""
    block_bytes: int = 16 * 1024 * 1024
    """A block is written when so many are gathered; twice as many, and no more is followed until it is."""
    commit_seconds: float = 10.0
    """At least so often."""
    keep_seconds: float = 3_600.0
    """How long blocks are kept."""
    all_history: bool = False
    """Whether a partition that is followed for the first time is followed from its first record."""


class _Over(NamedTuple):
    """Nothing of an epoch is under way any more; when it was, so many batches had been given to the WAL."""

    epoch: int
    added: int


class Confirming:
    """Of one main; used by one event loop."""

    def __init__(
        self,
        main: Main,
        broker: Callable[[], Address | None],
        storage: ObjectStorage,
        limits: ConfirmLimits,
        oldest_carried: Callable[[], int | None],
    ) -> None:
        """`oldest_carried`: the epoch of the oldest Route that is not done."""
        self._main, self._storage, self._limits = main, storage, limits
        self.appended = Appended()
        self.snapshots = Snapshots()
        self._follower = Follower(main, broker, self, all_history=limits.all_history)
        self._wal = ConfirmWal(storage, main, limits.wal_window_seconds, self._stored)
        self._blocks: Blocks | None = None
        self._ends: dict[Partition, int] = {}
        """Up to where the WAL or blocks have each partition."""
        self._led: dict[Partition, Led] = {}
        self._known: dict[Partition, Followed] = {}
        self._names: dict[tuple[str, int], Partition] = {}
        self._waiting: dict[Partition, list[tuple[int, Callable[[], None]]]] = {}
        self._moved = asyncio.Event()
        self._oldest_carried = oldest_carried
        self._fenced = 0
        self.reported_epoch = 0
        """What came in epochs up to this one is in blocks, or was never appended."""
        self.links = self.directs = 0
        """Batches that were stored as links, and whole."""

    # What a main node asks.

    def look(self) -> None:
        """There may be partitions that are not followed yet."""
        self._follower.look()

    def knows(self, name: tuple[str | bytes, int]) -> bool:
        return self._partition(name) in self._led

    def answered(self, handed: Handed, answer: memoryview) -> None:
        """By the broker."""
        self.appended.answered(handed, answer)
        for one in handed.given:
            if (partition := self._partition(one.name)) and (led := self._led.get(partition)):
                self.appended.passed(one.name, led.position)

    def when_all_are_stored(self, handed: Handed, then: Callable[[], None]) -> None:
        """Call it when all of a request that was appended is in the WAL; what isn't led here isn't waited for."""
        missing = [
            (partition, one.offset + one.offsets)
            for one in handed.given
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
        """By how they were stored."""
        return {"link": self.links, "whole": self.directs}

    def written(self) -> dict[str, int]:
        """Bytes of objects, by kind."""
        return {"wal": self._wal.written_bytes, "blocks": self._blocks.written_bytes if self._blocks else 0}

    async def run(self) -> None:
        """Until it is cancelled. Raises WalFenced."""
        stood = await self._begun()
        self._blocks = Blocks(self._storage, self._main, stood)
        self._known = dict(self._blocks.followed)
        self._ends = {partition: each.position for partition, each in self._known.items()}
        self._tell_reached()
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

    async def _begun(self) -> Stood:
        """Take the next name of the WAL at once: a process that was this main before writes no more after it. Then
        read what there is.
        """
        attempts, is_ours = 0, False
        while attempts < _MOST_ATTEMPTS:
            try:
                stood = await where_it_stood(self._storage, self._main)
                if is_ours:
                    return await with_tail(self._storage, self._main, stood)
                is_ours = await self._wal.begin(stood.wal_end)
                if is_ours:
                    continue
                attempts += 1
            except StorageFailed as error:
                _LOG.warning("zone_router.storage_away", why=str(error))
            await asyncio.sleep(_AGAIN_SECONDS)
        raise WalFenced(f"no name could be taken as the main of {self._main}; does another process write as it?")

    # What the follower tells.

    @property
    def known(self) -> Mapping[Partition, Followed]:
        return self._known

    def leads(self, led: Led) -> None:
        partition = led.partition
        # The log may have been cut there.
        self._ends[partition] = min(self._ends.get(partition, led.position), led.position)
        self._wal.add(FollowedBatch.begun(Begun(partition, led.leader_epoch, led.position, led.begins)))
        self._led[partition] = led
        self._names[led.topic, partition.number] = partition
        self._tell(led)

    def left(self, partition: Partition) -> None:
        led = self._led.pop(partition)
        self._known[partition] = led.followed
        self._names.pop((led.topic, partition.number), None)
        self.snapshots.left(partition)
        for _, then in self._waiting.pop(partition, []):
            then()  # the broker has it; whoever leads now tells of it

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
            self.appended.passed(name, led.position)
        if not found:
            self._tell(led)

    def _record(
        self,
        partition: Partition,
        names: tuple[tuple[str, int], tuple[bytes, int]],
        batch: Batch,
        data: memoryview,
        gap: int,
    ) -> Link | Direct:
        base, timestamp = batch.base_offset, batch.max_timestamp
        if at := self.appended.find(names, data):
            self.links += 1
            return Link(partition, batch.leader_epoch, batch.last_offset_delta, at, base, timestamp, gap)
        self.directs += 1
        return Direct(partition, base, batch.next_offset, data, gap)

    # What the WAL tells.

    def _stored(self, batches: Sequence[FollowedBatch]) -> None:
        assert self._blocks is not None
        touched: dict[Partition, None] = {}
        for each in batches:
            self._blocks.take(each)
            led = self._led.get(each.partition)
            # Another epoch's may be behind where it is followed from by now.
            if led is not None and led.leader_epoch == each.leader_epoch:
                self._ends[each.partition] = each.next_offset
                touched[each.partition] = None
        self._tell_reached()
        for partition in touched:
            self._tell(self._led[partition])
            self._confirm(partition)
        self._moved.set()

    def _confirm(self, partition: Partition) -> None:
        if waiting := self._waiting.get(partition):
            end = self._ends[partition]
            self._waiting[partition] = [each for each in waiting if each[0] > end]
            for offset, then in waiting:
                if offset <= end:
                    then()

    def _tell(self, led: Led) -> None:
        end, stable = self._ends.get(led.partition, led.position), led.last_stable
        is_behind = end < max(led.position, led.high_watermark)
        if is_behind and self._blocks and (stored := self._blocks.followed.get(led.partition)):
            # How a transaction ended stands in the WAL with its marker: until then it is an open one.
            stable = min([stable, *stored.open.values()])
        self.snapshots.tell(
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
        """What came in epochs up to this one is to be committed, so that its bulks may be deleted."""
        self._fenced = max(self._fenced, epoch)

    async def _commit_on(self) -> None:
        assert self._blocks is not None
        loop = asyncio.get_running_loop()
        last, over = loop.time(), _Over(0, 0)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.appended.sweep(loop.time())
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
        """Whether something of this epoch, or of one before it, may still come to be in the log, or in the WAL."""
        oldest = [self._oldest_carried(), self.appended.oldest_epoch()]
        return any(each is not None and each <= epoch for each in oldest)

    async def _commit(self) -> None:
        """All that is in the WAL now is in blocks."""
        assert self._blocks is not None
        end = self._wal.end
        if end > self._blocks.wal_end:
            await self._blocks.write(end, self._limits.keep_seconds)
            self._tell_reached()
            self._moved.set()

    def _tell_reached(self) -> None:
        assert self._blocks is not None
        self.snapshots.reached(self._blocks.wal_end, self._wal.end, self._blocks.first, self._blocks.end)
