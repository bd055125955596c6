"""Logs are truncated while blocks are written: proxies know what the log has, whenever they start.

A main's own code writes a WAL and blocks for random events of a log. One proxy follows all the time, and learns of
blocks late; another one starts at the end.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.kafka.wire.batches import batches, leader_epoch
from tests.unit.zones.test_confirmer import MAIN, PARTITION, PRODUCER, followed, sent
from tests.unit.zones.test_replica import replica_of
from workers.zone_router.formats import wal
from workers.zone_router.formats.route_messages import Snapshot, State
from workers.zone_router.formats.wal import Aborted, Begins, Begun, Gone, WalHead, WalRecord, wal_name
from workers.zone_router.main.blocks import Blocks
from workers.zone_router.main.followed_batch import FollowedBatch
from workers.zone_router.main.recovery import StoredState
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.replica import Replica

WRITE, ABORT, CUT, GONE, COMMIT, TELL = "write", "abort", "cut", "gone", "commit", "tell"
HAPPENS = st.one_of(
    st.tuples(st.just(WRITE), st.integers(1, 4)),
    st.tuples(st.just(ABORT), st.integers(0, 6)),
    st.tuples(st.just(CUT), st.integers(0, 12)),
    st.tuples(st.just(GONE), st.integers(0, 4)),
    st.tuples(st.sampled_from([COMMIT, TELL]), st.just(0)),
)


@dataclass
class Log:
    """The broker's log, and the objects that its main writes."""

    storage: ObjectStorage
    blocks: Blocks
    batches: dict[int, bytes] = field(default_factory=dict)
    """Followed batches, by offset."""
    end: int = 0
    aborted: list[tuple[int, int]] = field(default_factory=list)
    epoch: int = 1
    wal_end: int = 0
    told: tuple[int, int] = (0, 0)
    """Next block, and the first WAL object after the last block, as announced to proxies."""
    _payloads: int = 0

    async def happen(self, what: str, number: int) -> None:
        match what:
            case "write":
                for _ in range(number):
                    await self._write([])
            case "abort":
                # A producer has one transaction at a time.
                first = max([self.end - number - 1, *(last + 1 for _, last in self.aborted), *[*self.batches][:1]])
                if first not in self.batches:
                    return
                self.aborted.append((first, self.end))
                await self._write([Aborted(PARTITION, PRODUCER, first, self.end)])
            case "cut":
                self.end = max(self.end - number, min(self.batches, default=self.end))
                self.batches = {at: each for at, each in self.batches.items() if at < self.end}
                self.aborted = [each for each in self.aborted if each[1] < self.end]
                self.epoch += 1
                begun = Begun(PARTITION, self.epoch, self.end, Begins(self.epoch - 1, self.end))
                await self._put([begun], FollowedBatch.begun(begun))
            case "gone":
                # Another broker led and wrote, so the followed log differs from this one.
                self.batches, self.aborted, self.end = {}, [], self.end + number
                await self._put([Gone(PARTITION)], FollowedBatch.gone(Gone(PARTITION)))
                await self.happen(CUT, 0)
            case "commit":
                await self.happen(TELL, 0)  # at most one block is unannounced
                await self.blocks.write(self.wal_end, 60)
            case "tell":
                self.told = (self.blocks.end, self.blocks.wal_end)

    async def _write(self, aborted: list[Aborted]) -> None:
        self._payloads += 1
        offset = self.end
        # The timestamp of its only record distinguishes it from a truncated one.
        batch = followed(sent(offset, timestamp=self._payloads, epoch=self.epoch))
        self.batches[offset] = bytes(batch.batch)
        self.end += 1
        await self._put([batch.record, *aborted], batch._replace(aborted=aborted[0] if aborted else None))

    async def _put(self, records: list[WalRecord], taken: FollowedBatch) -> None:
        await self.storage.put_new(wal_name(MAIN, self.wal_end), wal.written(WalHead(self.wal_end, 1), records))
        self.wal_end += 1
        self.blocks.take(taken)

    def snapshot(self) -> Snapshot:
        end_block, wal_first = self.told
        state = State(PARTITION, "orders", self.epoch, 0, self.end, self.end, self.end)
        return Snapshot(wal_first, self.wal_end, self.blocks.first, end_block, [state], [])


async def is_as_the_log(replica: Replica, log: Log) -> None:
    view = replica.view("orders", 0)
    assert view is not None
    where = view.where
    found: dict[int, bytes] = {}
    for stretch in where.stretches:
        data = await log.storage.get(stretch.name, stretch.start, stretch.size)
        found |= {
            each.base_offset: bytes(data[each.at : each.at + each.size])
            for each in batches(data)
            if stretch.base_offset <= each.base_offset < stretch.next_offset
        }
    assert found == log.batches
    assert sorted(where.ended(0, 1_000)) == sorted((PRODUCER, first) for first, _ in log.aborted)
    assert where.decided <= log.end
    assert where.last_epoch in (-1, leader_epoch(log.batches[log.end - 1]) if log.batches else -1)


@given(st.lists(HAPPENS, max_size=25))
@example([(WRITE, 4), (COMMIT, 0), (CUT, 2), (TELL, 0)])
@example([(WRITE, 2), (ABORT, 1), (COMMIT, 0), (CUT, 2), (TELL, 0)])
@example([(WRITE, 3), (COMMIT, 0), (CUT, 2), (COMMIT, 0), (TELL, 0)])
@example([(WRITE, 2), (ABORT, 1), (COMMIT, 0), (CUT, 2), (WRITE, 3), (COMMIT, 0), (TELL, 0)])
@example([(WRITE, 2), (COMMIT, 0), (GONE, 2), (TELL, 0)])
@settings(max_examples=200, deadline=None)
def test_what_proxies_know_is_what_the_log_has(happens: list[tuple[str, int]]):
    async def test() -> None:
        storage = ObjectStorage("memory:///")
        log = Log(storage, Blocks(storage, MAIN, StoredState([], [], {}, 0)))
        following = replica_of(storage)
        await log.happen(CUT, 0)
        for what, number in happens:
            await log.happen(what, number)
            await following._follow(log.snapshot())
            await is_as_the_log(following, log)
        late = replica_of(storage)
        await late._follow(log.snapshot())
        await is_as_the_log(late, log)

    asyncio.run(test())
