"""Processes of the same node, on a storage whose responses are late or lost although requests succeed.

Of all processes only the last continues, and no earlier one announces anything after it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.nightly import some_now
from workers.zone_router.formats.bulk import ChannelOffset, Entry, Place, object_name
from workers.zone_router.object_storage import AlreadyWritten, ObjectStorage, StorageFailed
from workers.zone_router.proxy.channel import Limits, Part, RouterChannel
from workers.zone_router.proxy.succession import ChannelFenced, Holder, Succession
from workers.zone_router.traffic import ChannelTraffic

MAIN = ("east", 1)
SIDE_BY_SIDE = 3


class Slow(ObjectStorage):
    """Folder with random delays. A list has the objects that exist all the while, and others by chance."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        super().__init__(f"file://{folder}")
        self._draw = draw
        self._longest_seconds = draw.choice([0.0, 0.001, 0.005, 0.03])
        self._lost = draw.choice([0.0, 0.01, 0.05])
        self.late: set[asyncio.Task[None]] = set()

    async def put_new(self, name: str, data: bytes) -> None:
        await self._pause()
        if self._draw.random() < self._lost:
            await self._loses(self._puts_late(name, data))
        await super().put_new(name, data)
        await self._pause()

    async def get(self, name: str, start: int, length: int) -> memoryview:
        await self._pause()
        found = await super().get(name, start, length)
        await self._pause()
        return found

    async def sizes(self, prefix: str) -> dict[str, int]:
        before = await super().sizes(prefix)
        await self._pause()
        after = await super().sizes(prefix)
        await self._pause()
        moment = before | after
        return {
            name: moment[name]
            for name in moment
            if (name in before and name in after) or self._draw.random() < 0.5
        }

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            await self._pause()
            if self._draw.random() < self._lost:
                await self._loses(self._deletes_late(name))
            await super().delete([name])

    async def _pause(self) -> None:
        # Mostly short; a few take many times as long.
        await asyncio.sleep(self._draw.random() ** 4 * self._longest_seconds)

    async def _loses(self, work) -> None:
        self.late.add(asyncio.create_task(work))
        await self._pause()
        raise StorageFailed("no answer")

    async def _puts_late(self, name: str, data: bytes) -> None:
        await asyncio.sleep(self._draw.random() * 0.1)
        try:
            await super().put_new(name, data)
        except AlreadyWritten:
            return

    async def _deletes_late(self, name: str) -> None:
        await asyncio.sleep(self._draw.random() * 0.1)
        await super().delete([name])


class Process:
    """Process that writes as fast as it can, and deletes announced objects at once."""

    def __init__(self, folder: Path, seed: int) -> None:
        draw = random.Random(seed)
        self.storage = Slow(folder, draw)
        self.told: list[ChannelOffset] = []
        self.failed: list[str] = []
        self._numbers = itertools.count()
        limits = Limits(window_seconds=0.0, bulk_bytes=1, concurrent_writes=SIDE_BY_SIDE)
        traffic = ChannelTraffic(CollectorRegistry())
        self.channel = RouterChannel(
            self.storage, 7, lambda: 1, limits, self._told, self._failed, lambda _: True, traffic
        )
        self.running = asyncio.create_task(self.channel.run())
        self._feeding = asyncio.create_task(self._feed())

    def _told(self, parts: Sequence[Part]) -> None:
        (part,) = parts
        self.told.append(part.at)
        self.channel.trim([part.at.name])

    def _failed(self, _: Sequence[Place], why: str) -> None:
        self.failed.append(why)

    async def _feed(self) -> None:
        while True:
            if self.channel.held_bytes < 1_000:
                self.channel.take(Entry(MAIN, Place(1, 0, next(self._numbers)), [b"x"], 1))
            await asyncio.sleep(0)

    async def writes(self, count: int) -> None:
        """Write so many more bulks, or until the process stops."""
        wanted = len(self.told) + count
        while len(self.told) < wanted and not self.running.done():
            await asyncio.sleep(0.001)

    async def end(self) -> None:
        for task in (self.running, self._feeding, *self.storage.late):
            task.cancel()
        await asyncio.gather(self.running, self._feeding, *self.storage.late, return_exceptions=True)

    @property
    def has_ended(self) -> bool:
        return self.running.done()

    @property
    def number(self) -> int:
        return self.channel._succession.number

    @property
    def sequences(self) -> list[int]:
        return [at.sequence for at in self.told]


async def one_after_the_other(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    before = Process(folder, seed)
    await before.writes(1 + draw.randrange(60))  # it has drawn its number
    after = Process(folder, seed + 1_000_000)
    await asyncio.wait([before.running])
    assert isinstance(before.running.exception(), ChannelFenced)
    await after.writes(20)
    assert not after.has_ended
    assert max(before.sequences, default=-1) < min(after.sequences)
    assert after.sequences == sorted(set(after.sequences))
    assert not [why for why in after.failed if "taken by another" in why], "nothing is in its way"
    for process in (before, after):
        await process.end()


async def many_at_once(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    processes: list[Process] = []
    for at in range(draw.randrange(3, 6)):
        processes.append(Process(folder, seed + at * 1_000_000))
        await asyncio.sleep(draw.random() ** 3 * 0.2)
    await asyncio.wait([each.running for each in processes], timeout=None, return_when=asyncio.FIRST_COMPLETED)
    while sum(not each.has_ended for each in processes) > 1:
        await asyncio.sleep(0.001)
    (left,) = (each for each in processes if not each.has_ended)
    await left.writes(20)
    assert not left.has_ended
    assert left.number == max(each.number for each in processes)
    ended = [each for each in processes if each is not left]
    assert all(isinstance(each.running.exception(), ChannelFenced) for each in ended)
    for each in ended:
        assert max(each.sequences, default=-1) < min(left.sequences)
    ranges = sorted((min(each.sequences), max(each.sequences)) for each in processes if each.told)
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ranges))
    for each in processes:
        await each.end()


def play(scenario, folder: Path, seed: int) -> None:
    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await scenario(folder, seed)

    asyncio.run(within_a_minute())


SCENARIOS = pytest.mark.parametrize("scenario", [one_after_the_other, many_at_once])


@SCENARIOS
@some_now("seed", range(6), now=(0, 1))
def test_of_processes_that_are_the_same_node_the_last_lives_and_the_others_end(
    scenario, tmp_path: Path, seed: int
):
    play(scenario, tmp_path, seed)


@pytest.mark.nightly
@SCENARIOS
@pytest.mark.parametrize("seed", range(6, 180))
def test_of_processes_that_are_the_same_node_the_last_lives_for_many_seeds(scenario, tmp_path: Path, seed: int):
    play(scenario, tmp_path, seed)


def test_numbers_are_drawn_without_a_gap_and_who_has_one_sees_the_next(tmp_path: Path):
    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        processes = [Succession(storage, 7, SIDE_BY_SIDE) for _ in range(3)]
        for number, process in enumerate(processes, start=1):
            await process.come()
            assert process.number == number and not await process.is_over()
        assert [await process.is_over() for process in processes] == [True, True, False]
        other = Succession(storage, 8, SIDE_BY_SIDE)
        await other.come()
        assert other.number == 1, "another node's numbers are its own"

    asyncio.run(test())


def test_who_was_overtaken_while_it_came_ends(tmp_path: Path):
    """The process drew its number, and another one started before it had claimed its names."""

    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        late, last = Succession(storage, 7, SIDE_BY_SIDE), Succession(storage, 7, SIDE_BY_SIDE)
        late.number = await late._draw()
        begun = await last.come()
        with pytest.raises(ChannelFenced, match="a later process runs as node 7"):
            await late.come()
        name = f"channel/{7:010d}/{begun.sequence:020d}"
        assert await last.put(name, last.empty(name)) is Holder.EARLIER, "what it took is in the way, and no more"

    asyncio.run(test())


def test_two_that_drew_one_number_do_not_take_each_others_bulks_for_their_own(tmp_path: Path) -> None:
    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        one, other = Succession(storage, 7, SIDE_BY_SIDE), Succession(storage, 7, SIDE_BY_SIDE)
        begins = await one.come()
        shutil.rmtree(tmp_path / "processes")  # deleted by someone else
        await other.come()
        assert one.number == other.number
        for sequence, holders in ((-1, (Holder.OURS, Holder.LATER)), (0, (Holder.LATER, Holder.OURS))):
            name = object_name(7, begins.sequence + sequence)
            assert (await one.put(name, one.empty(name)), await other.put(name, other.empty(name))) == holders

    asyncio.run(test())
