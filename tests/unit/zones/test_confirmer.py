"""A main never reports more of its log than readers find in storage."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kafka.record.default_records import DefaultRecordBatchBuilder

from backend.kafka.wire.batches import Batch, batches
from tests.unit.wire.test_batches import marker
from workers.zone_router.block_index import read_block_index
from workers.zone_router.formats import wal
from workers.zone_router.formats.block import Followed, block_name
from workers.zone_router.formats.bulk import ChannelOffset
from workers.zone_router.formats.route_messages import Snapshot
from workers.zone_router.formats.wal import Aborted, Begun, Direct, Gone, Partition, wal_name
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.confirmer import Confirmer, ConfirmLimits
from workers.zone_router.main.followed_batch import FollowedBatch
from workers.zone_router.main.follower import Led
from workers.zone_router.main.forwarded_batches import ForwardedBatch, ForwardedRequest
from workers.zone_router.main.recovery import StoredState
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.index import Index, Stretch

MAIN = ("east", 1)
PARTITION = Partition(bytes(16), 0)
PRODUCER = 99


def sent(offset: int, *, is_transactional: bool = True, timestamp: int = 5, epoch: int = 0) -> bytes:
    """Return one record as in the log, written by the leader of this epoch."""
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional, PRODUCER, 1, 0, 10**6)
    builder.append(0, timestamp, b"k", b"v", [])
    built = bytes(builder.build())
    return offset.to_bytes(8) + built[8:12] + epoch.to_bytes(4) + built[16:]


def aborted(offset: int, epoch: int = 0) -> bytes:
    built = marker(0)
    return offset.to_bytes(8) + built[8:12] + epoch.to_bytes(4) + built[16:]


def found(data: bytes) -> tuple[Batch, memoryview, int]:
    return next(batches(data)), memoryview(data), 0


def followed(data: bytes) -> FollowedBatch:
    batch, view, _ = found(data)
    record = Direct(PARTITION, batch.base_offset, batch.next_offset, view)
    return FollowedBatch.of(record, batch, view, 1, {}, None)


def begun(storage: ObjectStorage) -> Confirmer:
    """Start a main with empty storage, whose WAL is not written yet."""
    confirmer = Confirmer(MAIN, lambda: None, storage, ConfirmLimits(wal_window_seconds=0.0), lambda: None)
    confirmer._blocks = Blocks(storage, MAIN, StoredState([], [], {}, 0))
    return confirmer


async def are_stored(confirmer: Confirmer, count: int) -> None:
    """Store so many of the batches that were added to the WAL."""
    async with asyncio.timeout(30):
        while confirmer._wal.done < count:
            await asyncio.sleep(0.001)


def test_what_is_stable_is_told_when_it_is_stored_which_transaction_was_aborted(tmp_path: Path):
    """The broker raises the last stable offset with the marker before that is in the WAL."""

    class Held(ObjectStorage):
        is_asked, may = asyncio.Event(), asyncio.Semaphore(0)

        async def put_new(self, name: str, data: bytes) -> None:
            self.is_asked.set()
            await self.may.acquire()
            await super().put_new(name, data)

    async def test() -> None:
        storage = Held(f"file://{tmp_path}")
        confirmer = begun(storage)
        said: list[Snapshot] = []
        session = confirmer.snapshots.session(said.append)
        led = Led(PARTITION, "orders", 1, 0)

        async def stored(count: int) -> tuple[int, int]:
            storage.may.release()
            await are_stored(confirmer, count)
            session.poll()
            await asyncio.sleep(0)
            (state,) = said[-1].states
            return state.end, state.last_stable

        def took(data: bytes, stable: int) -> None:
            led.position, led.high_watermark, led.last_stable = led.position + 1, led.position + 1, stable
            confirmer.took(led, [found(data)])

        writing = asyncio.create_task(confirmer._wal.run())
        confirmer.leads(led)
        took(sent(0), 0)
        await storage.is_asked.wait()
        took(aborted(1), 2)
        assert await stored(2) == (1, 0), "the record is stored, and what became of it is not"
        assert await stored(3) == (2, 2)
        writing.cancel()

    asyncio.run(test())


def test_what_was_appended_is_confirmed_when_the_wal_has_it(tmp_path: Path):
    async def test() -> None:
        confirmer = begun(ObjectStorage(f"file://{tmp_path}"))
        led = Led(PARTITION, "orders", 1, 0)
        confirmer.leads(led)
        given = ForwardedBatch(("orders", 0), b"", ChannelOffset(1, 1, 1, 0, 100), offsets=1, since=0.0, offset=0)
        confirmed: list[ForwardedBatch] = []
        confirmer.when_all_are_stored(ForwardedRequest(3, [given]), lambda: confirmed.append(given))
        led.position = 1
        confirmer.took(led, [found(sent(0))])
        assert confirmed == [], "the broker has it, and storage has not"
        writing = asyncio.create_task(confirmer._wal.run())
        await are_stored(confirmer, 2)
        assert confirmed == [given]
        writing.cancel()

    asyncio.run(test())


def test_a_block_has_no_partition_of_which_all_was_cut_off(tmp_path: Path):
    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        blocks = Blocks(storage, MAIN, StoredState([], [], {}, 0))
        for offset in (0, 1):
            if not offset:
                blocks.take(FollowedBatch.begun(Begun(PARTITION, 1, 0)))
            blocks.take(followed(sent(offset)))
        blocks.take(FollowedBatch.begun(Begun(PARTITION, 2, 0)))
        await blocks.write(5, 60)
        index = await read_block_index(storage, block_name(MAIN, 0))
        assert index.followed == {PARTITION: Followed(2, 0, {})}
        for segments in index.segments.values():
            Index().replace([Stretch(*each[:2], "b", *each[2:], -1, -1, True) for each in segments])
        assert index.segments == {}

    asyncio.run(test())


def test_of_a_log_that_is_not_followed_to_its_end_it_is_not_told_that_all_is_stable(tmp_path: Path):
    """The broker's last stable offset is after markers that the main has not seen yet."""

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        confirmer = begun(storage)
        said: list[Snapshot] = []
        session = confirmer.snapshots.session(said.append)
        writing = asyncio.create_task(confirmer._wal.run())
        led = Led(PARTITION, "orders", 1, 0)
        confirmer.leads(led)
        led.position, led.high_watermark, led.last_stable = 1, 1_000, 1_000
        confirmer.took(led, [found(sent(0))])
        await are_stored(confirmer, 2)
        confirmer._report_reached()
        session.poll()
        await asyncio.sleep(0)
        (state,) = said[-1].states
        assert (state.end, state.last_stable) == (1, 0)
        writing.cancel()

    asyncio.run(test())


def test_an_aborted_transaction_is_told_before_what_cuts_it_off(tmp_path: Path):
    """All records go into one object, as after some seconds without storage."""

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        confirmer = begun(storage)
        led = Led(PARTITION, "orders", 1, 0)
        confirmer.leads(led)
        for at, data in enumerate((sent(0), aborted(1))):
            led.position = at + 1
            confirmer.took(led, [found(data)])
        confirmer.gone(PARTITION)
        writing = asyncio.create_task(confirmer._wal.run())
        await are_stored(confirmer, 4)
        kinds = [type(record) for record, _ in wal.read(await storage.whole(wal_name(MAIN, 0)))]
        assert kinds == [Begun, Direct, Direct, Aborted, Gone]
        writing.cancel()

    asyncio.run(test())


def test_a_batch_behind_a_gap_in_which_the_log_is_cut_is_not_in_a_block(tmp_path: Path):
    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        blocks = Blocks(storage, MAIN, StoredState([], [], {}, 0))
        blocks.take(FollowedBatch.begun(Begun(PARTITION, 1, 0)))
        blocks.take(followed(sent(0)))
        blocks.take(followed(sent(8))._replace(base_offset=1))
        blocks.take(FollowedBatch.begun(Begun(PARTITION, 2, 7)))
        blocks.take(followed(sent(7)))
        await blocks.write(5, 60)
        index = await read_block_index(storage, block_name(MAIN, 0))
        assert [each[:2] for each in index.segments[PARTITION]] == [(0, 1), (7, 8)]
        assert index.cuts == {PARTITION: 0}

    asyncio.run(test())
