"""What a main tells of its log: never more than readers find in storage, whatever is still under way."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kafka.record.default_records import DefaultRecordBatchBuilder

from backend.kafka.wire.batches import Batch, batches
from tests.zone_router.test_batches import marker
from workers.zone_router.block_index import read_block_index
from workers.zone_router.formats.block import Followed, block_name
from workers.zone_router.formats.route_messages import Snapshot
from workers.zone_router.formats.wal import Begun, Direct, Partition
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.confirming import Confirming, ConfirmLimits
from workers.zone_router.main.followed_batch import FollowedBatch
from workers.zone_router.main.follower import Led
from workers.zone_router.main.recovery import Stood
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.index import Index, Stretch

MAIN = ("east", 1)
PARTITION = Partition(bytes(16), 0)
PRODUCER = 99


def sent(offset: int, *, is_transactional: bool = True, timestamp: int = 5) -> bytes:
    """One record at an offset, as it is in the log."""
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional, PRODUCER, 1, 0, 10**6)
    builder.append(0, timestamp, b"k", b"v", [])
    return offset.to_bytes(8) + bytes(builder.build())[8:]


def aborted(offset: int) -> bytes:
    return offset.to_bytes(8) + marker(0)[8:]


def found(data: bytes) -> tuple[Batch, memoryview, int]:
    return next(batches(data)), memoryview(data), 0


def followed(data: bytes) -> FollowedBatch:
    batch, view, _ = found(data)
    record = Direct(PARTITION, batch.base_offset, batch.next_offset, view)
    return FollowedBatch.of(record, batch, view, 1, {}, None)


def test_what_is_stable_is_told_when_it_is_stored_which_transaction_was_aborted(tmp_path: Path):
    """The broker tells with the marker that all is stable, while the object with the marker is not written yet."""

    class Held(ObjectStorage):
        is_asked, may = asyncio.Event(), asyncio.Semaphore(0)

        async def put_new(self, name: str, data: bytes) -> None:
            self.is_asked.set()
            await self.may.acquire()
            await super().put_new(name, data)

    async def test() -> None:
        storage = Held(f"file://{tmp_path}")
        confirming = Confirming(MAIN, lambda: None, storage, ConfirmLimits(wal_window_seconds=0.0), lambda: None)
        confirming._blocks = Blocks(storage, MAIN, Stood([], [], {}, 0))
        said: list[Snapshot] = []
        session = confirming.snapshots.session(said.append)
        led = Led(PARTITION, "orders", 1, 0)

        async def stored(count: int) -> tuple[int, int]:
            storage.may.release()
            async with asyncio.timeout(30):
                while confirming._wal.done < count:
                    await asyncio.sleep(0.001)
            session.poll()
            await asyncio.sleep(0)
            (state,) = said[-1].states
            return state.end, state.last_stable

        def took(data: bytes, stable: int) -> None:
            led.position, led.high_watermark, led.last_stable = led.position + 1, led.position + 1, stable
            confirming.took(led, [found(data)])

        writing = asyncio.create_task(confirming._wal.run())
        confirming.leads(led)
        took(sent(0), 0)
        await storage.is_asked.wait()
        took(aborted(1), 2)
        assert await stored(2) == (1, 0), "the record is stored, and what became of it is not"
        assert await stored(3) == (2, 2)
        writing.cancel()

    asyncio.run(test())


def test_a_block_has_no_partition_of_which_all_was_cut_off(tmp_path: Path):
    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        blocks = Blocks(storage, MAIN, Stood([], [], {}, 0))
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
