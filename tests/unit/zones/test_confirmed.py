"""Objects of a main, and a proxy's view of them: confirm WAL, blocks, indexes, caches."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.zone_router.block_index import read_block_index
from workers.zone_router.formats import block, wal
from workers.zone_router.formats.block import BlockMalformed, Followed, block_name
from workers.zone_router.formats.bulk import ChannelOffset
from workers.zone_router.formats.wal import (
    Aborted,
    Begins,
    Begun,
    Direct,
    Gone,
    Link,
    Partition,
    WalHead,
    WalMalformed,
    WalRecord,
)
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.index import Index, Stretch
from workers.zone_router.proxy.object_cache import Cache, ObjectCache

PARTITIONS = [Partition(bytes([topic]) * 16, number) for topic in range(2) for number in range(3)]
OFFSETS = st.integers(0, 2**62)

LINKS = st.builds(
    lambda partition, epoch, base, count, at: Link(partition, epoch, count, ChannelOffset(*at), base, 5),
    st.sampled_from(PARTITIONS),
    st.integers(0, 2**31 - 1),
    OFFSETS,
    st.integers(0, 1_000),
    st.tuples(*[st.integers(0, 2**32 - 1)] * 5),
)
DIRECTS = st.builds(
    lambda partition, base, count, rest: Direct(partition, base, base + count, base.to_bytes(8) + rest),
    st.sampled_from(PARTITIONS),
    OFFSETS,
    st.integers(1, 1_000),
    st.binary(max_size=80),
)
ABORTED = st.builds(Aborted, st.sampled_from(PARTITIONS), OFFSETS, OFFSETS, OFFSETS)
EPOCHS = st.integers(-1, 2**31 - 1)
BEGUN = st.builds(Begun, st.sampled_from(PARTITIONS), EPOCHS, OFFSETS, st.builds(Begins, EPOCHS, OFFSETS))
GONE = st.builds(Gone, st.sampled_from(PARTITIONS))
RECORDS = st.lists(LINKS | DIRECTS | ABORTED | BEGUN | GONE, max_size=12)


@given(RECORDS)
def test_a_wal_is_read_as_it_was_written(records: list[WalRecord]):
    data = memoryview(wal.written(WalHead(7, 2**64 - 1), records))
    assert wal.read_head(data) == WalHead(7, 2**64 - 1)
    found = list(wal.read(data))
    assert [record for record, _ in found] == records
    for record, start in found:
        if isinstance(record, Direct):
            assert data[start : start + len(record.batch)] == record.batch


@given(RECORDS, st.data())
def test_a_wal_that_is_cut_or_wrong_is_refused_or_read(records: list[WalRecord], data: st.DataObject):
    whole = bytearray(wal.written(WalHead(7, 1), records))
    for _ in range(3):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(whole)[: data.draw(st.integers(0, len(whole)))]
    try:
        list(wal.read(cut))
    except WalMalformed:
        return


def test_a_block_tells_where_its_batches_are(tmp_path: Path):
    draw = random.Random(4)
    batches = {
        partition: [(at * 10, at * 10 + 10, draw.randbytes(200_000)) for at in range(12)]
        for partition in PARTITIONS
    }
    aborted = [Aborted(PARTITIONS[0], 9, 20, 55)]
    followed = {PARTITIONS[1]: Followed(3, 120, {77: 100}, Begins(2, 50), 3), PARTITIONS[5]: Followed(1, 5, {})}
    cuts = {PARTITIONS[1]: 50, PARTITIONS[4]: 0}
    data = block.written(batches, aborted, followed, cuts, 40, 11)

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        name = block_name(("east", 1), 3)
        assert await storage.put_own(name, data, block.HEAD_BYTES)
        assert await storage.put_own(name, data, block.HEAD_BYTES), "it is its own"
        other = block.written(batches, aborted, followed, cuts, 40, 12)
        assert not await storage.put_own(name, other, block.HEAD_BYTES)
        index = await read_block_index(storage, name)
        assert index.aborted == aborted and index.followed == followed and index.wal_end == 40
        assert index.cuts == cuts
        for partition, those in batches.items():
            segments = index.segments[partition]
            assert [each.base_offset for each in segments] == [0, 60]
            joined = b"".join([bytes(await storage.get(name, each.start, each.size)) for each in segments])
            assert joined == b"".join(each for _, _, each in those)
        await storage.put_own(block_name(("east", 1), 4), data[:-1], block.HEAD_BYTES)
        with pytest.raises(BlockMalformed, match="not a block"):
            await read_block_index(storage, block_name(("east", 1), 4))

    asyncio.run(test())


def test_an_index_that_is_larger_than_an_end_is_read_whole(tmp_path: Path):
    many = {Partition(bytes(16), number): Followed(1, 2 * number, {}) for number in range(20_000)}
    data = block.written({}, [], many, {}, 1, 1)
    assert len(data) > block.TAIL_BYTES

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        await storage.put_own("b", data, block.HEAD_BYTES)
        assert (await read_block_index(storage, "b")).followed == many

    asyncio.run(test())


def stretch(base: int, end: int, name: str = "w") -> Stretch:
    return Stretch(base, end, name, base, end - base, -1, -1, name.startswith("b"))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8), st.booleans()), max_size=30))
def test_an_index_is_what_was_told_last_of_each_offset(told: list[tuple[int, int, bool]]):
    """Compare the index with a list that has an entry per offset.

    A batch of the WAL that is cut within is removed whole.
    """
    index, expected = Index(), dict[int, str]()
    for number, (base, size, is_block) in enumerate(told):
        end, name = base + size, f"{'b' if is_block else 'w'}{number}"
        cut = {each for at, each in expected.items() if at >= base and each.startswith("w")}
        if is_block:
            index.replace([stretch(base, end, name)])
            expected = {at: each for at, each in expected.items() if at >= end or each not in cut}
        else:
            index.append(stretch(base, end, name), 1)
            expected = {at: each for at, each in expected.items() if at < base and each not in cut}
        expected |= dict.fromkeys(range(base, end), name)
    found: dict[int, str] = {}
    for each in index.stretches:
        for at in range(each.base_offset, each.next_offset):
            assert at not in found
            found[at] = each.name
    assert found == expected
    assert list(found) == sorted(found)
    for offset in range(50):
        at = index.at(offset)
        assert all(each.next_offset <= offset for each in index.stretches[:at])
        assert all(each.next_offset > offset for each in index.stretches[at:])
        assert index.has(offset) == (offset in expected)


def test_a_cache_keeps_what_was_wanted_last_within_its_bound():
    cache = Cache(100)
    for number in range(10):
        cache.put(f"o{number}", 0, memoryview(bytes(20)))
        cache.get("o0", 5, 3)
        assert cache.bytes <= 100
    assert cache.get("o0", 5, 10) is not None and cache.get("o9", 0, 20) is not None
    assert cache.get("o1", 0, 1) is None and cache.get("o9", 10, 11) is None
    cache.put("large", 0, memoryview(bytes(101)))
    assert cache.get("large", 0, 1) is None and cache.get("o9", 0, 20) is not None


def test_two_who_want_the_same_read_it_once(tmp_path: Path):
    class Counting(ObjectStorage):
        count = 0

        async def get(self, name: str, start: int, length: int) -> memoryview:
            self.count += 1
            return await super().get(name, start, length)

    async def test() -> None:
        storage = Counting(f"file://{tmp_path}")
        await storage.put_new("a", b"0123456789")
        stored = ObjectCache(storage, 100, 100)
        found = await asyncio.gather(*(stored.get("a", 2, 3) for _ in range(10)))
        assert {bytes(each) for each in found} == {b"234"} and storage.count == 1
        await stored.get("a", 3, 2)
        assert storage.count == 1
        stored.keep("mine", b"abc")
        assert bytes(await stored.get("mine", 1, 2)) == b"bc" and storage.count == 1

    asyncio.run(test())
