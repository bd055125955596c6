"""Reads of records from before the current leader's epoch, through mains that followed the earlier leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from backend.kafka.wire.batches import batches
from backend.kafka.wire.endpoints import Address
from backend.kafka.wire.fetch_requests import FetchPartition, FetchRequest, fetch_request
from backend.kafka.wire.fetch_responses import FetchedPartition, read_fetch_response
from backend.kafka.wire.requests import read_request
from tests.unit.zones.test_confirmer import PARTITION, PRODUCER, aborted, followed, sent
from workers.zone_router.formats import wal
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.route_messages import Snapshot, State
from workers.zone_router.formats.wal import Aborted, Begins, Begun, Direct, WalHead, WalRecord, wal_name
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.followed_batch import FollowedBatch
from workers.zone_router.main.recovery import StoredState
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.object_cache import ObjectCache
from workers.zone_router.proxy.replica import Replica
from workers.zone_router.proxy.zone_reader import ZoneReader
from workers.zone_router.router_file import MainAt
from workers.zone_router.traffic import Traffic

VERSION = 16
COMMITTED = 1


class Mains:
    """Mains that followed one partition, and a node that reads from the last of them."""

    def __init__(self, folder: Path) -> None:
        self.storage = ObjectStorage(f"file://{folder}")
        self._stored = ObjectCache(self.storage, 1_000_000, 1_000_000)
        self._traffic = Traffic("a", "az2", CollectorRegistry())
        self._ends: dict[Main, int] = {}
        self.replicas: dict[Main, Replica] = {}

    async def led(
        self,
        broker: int,
        epoch: int,
        start: int,
        end: int,
        *,
        begins: Begins | None = None,
        stable: int | None = None,
        more: Sequence[WalRecord] = (),
        is_leader: bool = False,
    ) -> None:
        """Let a broker's main follow a record at each of these offsets, in an epoch that starts at the first."""
        main = ("east", broker)
        begun = Begun(PARTITION, epoch, start, begins or Begins(epoch - 1, start))
        records = [begun, *(followed(sent(at, epoch=epoch)).record for at in range(start, end)), *more]
        sequence = self._ends.setdefault(main, 0)
        self._ends[main] += 1
        await self.storage.put_new(wal_name(main, sequence), wal.written(WalHead(sequence, 1), records))
        end = max((getattr(each, "next_offset", 0) for each in records), default=end)
        state = State(PARTITION, "orders", epoch, 0, end, end, end if stable is None else stable)
        replica = self.replica(broker)
        await replica._follow(Snapshot(0, sequence + 1, 0, 0, [state], []))
        if not is_leader:
            await replica._follow(Snapshot(0, sequence + 1, 0, 0, [], [PARTITION]))

    def replica(self, broker: int) -> Replica:
        main = ("east", broker)
        if main not in self.replicas:
            at = MainAt(Address("127.0.0.1", 1), "az1")
            self.replicas[main] = Replica(1, main, at, self.storage, self._stored, self._traffic)
        return self.replicas[main]

    async def read(self, broker: int, offset: int, isolation: int = 0) -> FetchedPartition | None:
        """Read in place of this leader; None if the leader must be asked."""
        leader = self.replica(broker)
        others = [each for each in self.replicas.values() if each is not leader]
        reading = ZoneReader(leader, lambda: others, self._stored, 1_000_000)
        asked = FetchPartition(PARTITION.topic_id, 0, -1, offset, -1, -1, 1_000_000)
        fetch = FetchRequest(0, 1, 1_000_000, isolation, 0, -1, [asked], [])
        message = memoryview(b"".join(fetch_request(VERSION, 7, b"c", fetch)))
        found = await reading.answer(read_request(message), message)
        if found.cold is not None:
            return None
        (told,) = read_fetch_response(VERSION, memoryview(b"".join(found.pieces))).partitions
        return told

    async def offsets(self, broker: int, offset: int, isolation: int = 0) -> list[int] | None:
        told = await self.read(broker, offset, isolation)
        return None if told is None else offsets_of(told)


def offsets_of(told: FetchedPartition) -> list[int]:
    return [batch.base_offset for records in told.records for batch in batches(memoryview(records))]


def test_what_the_one_before_has_followed_is_read_up_to_where_the_leader_began(tmp_path: Path):
    async def test() -> None:
        mains = Mains(tmp_path)
        await mains.led(1, 4, 0, 6)  # one more than the next leader has, after an unclean election
        await mains.led(2, 5, 5, 8, is_leader=True)
        assert await mains.offsets(2, 0) == [0, 1, 2, 3, 4]
        assert await mains.offsets(2, 4) == [4]
        assert await mains.offsets(2, 5) == [5, 6, 7]

    asyncio.run(test())


def test_so_is_what_those_before_that_one_have(tmp_path: Path):
    """The last leader but one led twice, and wrote the second time; the first has more than the log has now."""

    async def test() -> None:
        mains = Mains(tmp_path)
        await mains.led(1, 3, 0, 9)
        await mains.led(3, 5, 4, 6, begins=Begins(3, 4))
        await mains.led(2, 6, 6, 8, is_leader=True)
        assert await mains.offsets(2, 1) == [1, 2, 3]
        assert await mains.offsets(2, 4) == [4, 5]

    asyncio.run(test())


def test_of_an_epoch_that_nobody_followed_the_leader_is_asked(tmp_path: Path):
    """The unknown leader may have truncated what earlier ones had."""

    async def test() -> None:
        mains = Mains(tmp_path)
        await mains.led(1, 3, 0, 9)
        await mains.led(2, 5, 7, 8, is_leader=True)
        assert await mains.offsets(2, 1) is None
        await mains.led(1, 6, 8, 9)  # it has led again since, with another log
        await mains.led(3, 4, 0, 2)
        assert await mains.offsets(2, 1) == [1], "the one that was missed has come"
        assert await mains.offsets(2, 2) is None, "as far as it goes"

    asyncio.run(test())


def test_who_began_at_the_end_of_the_log_says_nothing_of_the_one_before(tmp_path: Path):
    async def test() -> None:
        mains = Mains(tmp_path)
        await mains.led(1, 4, 0, 6)
        await mains.led(2, 5, 5, 8, begins=Begins(-1, -1), is_leader=True)
        assert await mains.offsets(2, 0) is None

    asyncio.run(test())


def test_a_transaction_that_the_next_leader_ended_is_not_read_as_committed(tmp_path: Path):
    """The previous leader's main knows that the transaction was open, but not its outcome."""

    async def test() -> None:
        mains = Mains(tmp_path)
        ended = [followed(aborted(2, epoch=4)).record, Aborted(PARTITION, PRODUCER, 0, 2)]
        later = [followed(sent(at, epoch=4)).record for at in (3, 4)]
        await mains.led(1, 4, 0, 2, stable=3, more=[*ended, *later])
        await mains.led(2, 5, 5, 5, more=[followed(aborted(5)).record], is_leader=True)
        told = await mains.read(2, 0, COMMITTED)
        assert told is not None and offsets_of(told) == [0, 1, 2] and told.aborted == [(PRODUCER, 0)]
        assert await mains.offsets(2, 3, COMMITTED) is None
        assert await mains.offsets(2, 3) == [3, 4]
        assert await mains.offsets(2, 5, COMMITTED) == [5]

    asyncio.run(test())


def test_it_is_known_from_blocks_to_a_node_that_comes_later(tmp_path: Path):
    async def test() -> None:
        mains = Mains(tmp_path)
        open_one = {PRODUCER: 3}
        before = Blocks(mains.storage, ("east", 1), StoredState([], [], {}, 0))
        before.take(FollowedBatch.begun(Begun(PARTITION, 4, 0, Begins(3, 0))))
        for at in range(5):
            before.take(followed(sent(at, epoch=4))._replace(open_after={} if at < 3 else open_one))
        await before.write(3, 60)
        await mains.replica(1)._follow(Snapshot(3, 3, 0, 1, [], []))
        await mains.led(2, 5, 5, 8, is_leader=True)
        assert await mains.offsets(2, 0) == [0, 1, 2, 3, 4]
        assert await mains.offsets(2, 0, COMMITTED) == [0, 1, 2]

    asyncio.run(test())


def test_what_a_leader_wrote_that_the_next_one_never_had_is_not_read(tmp_path: Path):
    """The leader was alone. Its successor's log has other records there, of the epoch before."""

    async def test() -> None:
        mains = Mains(tmp_path)
        await mains.led(1, 4, 4, 8, begins=Begins(3, 4))
        await mains.led(2, 5, 10, 12, begins=Begins(3, 10), is_leader=True)
        assert await mains.offsets(2, 4) is None
        await mains.led(3, 3, 0, 12)
        assert await mains.offsets(2, 4) == [*range(4, 10)]

    asyncio.run(test())


def test_a_marker_that_the_next_leader_did_not_have_ended_nothing(tmp_path: Path):
    async def test() -> None:
        mains = Mains(tmp_path)
        ended = [followed(aborted(4, epoch=4)).record, Aborted(PARTITION, PRODUCER, 3, 4)]
        await mains.led(1, 4, 0, 4, stable=5, more=ended)
        await mains.led(2, 5, 4, 6, is_leader=True)
        assert await mains.offsets(2, 3, COMMITTED) is None
        assert await mains.offsets(2, 3) == [3]

    asyncio.run(test())


def test_a_gap_up_to_where_the_next_leader_began_is_the_leaders_to_tell(tmp_path: Path):
    """Compaction removed the records: clients must not get empty responses again and again."""

    async def test() -> None:
        mains = Mains(tmp_path)
        behind = Direct(PARTITION, 8, 9, sent(8, epoch=4), gap=3)
        await mains.led(1, 4, 0, 5, more=[behind])
        await mains.led(2, 5, 7, 9, is_leader=True)
        assert await mains.offsets(2, 4) == [4]
        assert await mains.offsets(2, 5) is None

    asyncio.run(test())
