"""A proxy's replica with deleted objects and truncated logs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from backend.kafka.wire.endpoints import Address
from tests.unit.zones.test_confirmer import MAIN, PARTITION, PRODUCER, followed, sent
from workers.zone_router.formats import wal
from workers.zone_router.formats.block import block_name
from workers.zone_router.formats.route_messages import Snapshot, State
from workers.zone_router.formats.wal import Aborted, Begun, WalHead, wal_name
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.followed_batch import FollowedBatch
from workers.zone_router.main.recovery import StoredState
from workers.zone_router.object_storage import ObjectMissing, ObjectStorage
from workers.zone_router.proxy.index import Index
from workers.zone_router.proxy.object_cache import ObjectCache
from workers.zone_router.proxy.replica import Replica
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic


def replica_of(storage: ObjectStorage) -> Replica:
    traffic = Traffic("a", "az2", CollectorRegistry())
    at = MainAt(Address("127.0.0.1", 1), "az1")
    return Replica(1, MAIN, at, storage, ObjectCache(storage, 1_000_000, 1_000_000), traffic)


def told(wal_first: int, wal_end: int, first_block: int, end_block: int, end: int) -> Snapshot:
    state = State(PARTITION, "orders", 1, 0, end, end, end)
    return Snapshot(wal_first, wal_end, first_block, end_block, [state], [])


async def blocks_of(storage: ObjectStorage, count: int) -> None:
    """Write blocks with one record each."""
    blocks = Blocks(storage, MAIN, StoredState([], [], {}, 0))
    blocks.take(FollowedBatch.begun(Begun(PARTITION, 1, 0)))
    for offset in range(count):
        blocks.take(followed(sent(offset)))
        await blocks.write(offset + 1, 60)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_block_that_is_gone_is_gone_on_from(tmp_path: Path, gone: int):
    """Earlier records come from the leader, as the block might have had aborted transactions."""

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        await blocks_of(storage, 3)
        await storage.put_new(wal_name(MAIN, 3), wal.written(WalHead(3, 1), [followed(sent(3)).record]))
        await storage.delete([block_name(MAIN, gone)])
        replica = replica_of(storage)
        await replica._follow(told(3, 4, 0, 3, 4))
        view = replica.view("orders", 0)
        assert view is not None
        assert [view.where.has(offset) for offset in range(4)] == [offset > gone for offset in range(4)]

    asyncio.run(test())


def test_blocks_that_went_before_they_were_read_leave_nothing_of_what_was_before_them(tmp_path: Path):
    """The proxy was disconnected from the main for longer than the retention of blocks."""

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        await storage.put_new(
            wal_name(MAIN, 0), wal.written(WalHead(0, 1), [Begun(PARTITION, 1, 0), followed(sent(0)).record])
        )
        replica = replica_of(storage)
        await replica._follow(told(0, 1, 0, 0, 1))
        await blocks_of(storage, 3)
        await storage.delete([block_name(MAIN, 0), block_name(MAIN, 1)])
        await replica._follow(told(3, 3, 2, 3, 3))
        view = replica.view("orders", 0)
        assert view is not None
        assert [view.where.has(offset) for offset in range(3)] == [False, False, True]

    asyncio.run(test())


def test_an_object_of_the_wal_that_is_gone_is_not_stepped_over(tmp_path: Path):
    """The object may have an aborted transaction, so no progress may be published without it."""

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        first = [Begun(PARTITION, 1, 0), followed(sent(0)).record]
        await storage.put_new(wal_name(MAIN, 0), wal.written(WalHead(0, 1), first))
        replica = replica_of(storage)
        with pytest.raises(ObjectMissing):
            await replica._follow(told(0, 2, 0, 0, 2))
        assert replica.view("orders", 0) is None

    asyncio.run(test())


def test_what_was_cut_off_has_no_transaction_that_was_aborted():
    """The same producer may now commit records at those offsets."""
    index = Index()
    for first, last in ((0, 9), (10, 19)):
        index.note(Aborted(PARTITION, PRODUCER, first, last))
    index.was_cut(15)
    assert index.ended(0, 100) == [(PRODUCER, 0)]
