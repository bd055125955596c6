"""The router channel on a real folder: order, bulks, a storage that fails, and a node that was replaced."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.disks import small_disk
from workers.zone_router.formats.bulk import HEAD_BYTES, ChannelOffset, Entry, Main, Place, read
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits, RouterChannel
from workers.zone_router.proxy.succession import ChannelFenced
from workers.zone_router.traffic import ChannelTraffic

EAST, WEST = ("east", 1), ("west", 2)


class Written:
    """A channel that runs, and what it told."""

    def __init__(
        self, at: Path | str, node: int = 7, epoch: int = 3, options: dict[str, str] | None = None, **limits: Any
    ) -> None:
        """`at`: a folder, or a storage's URL."""
        self.storage = ObjectStorage(f"file://{at}" if isinstance(at, Path) else at, options)
        self.registry = CollectorRegistry()
        self.told: list[tuple[Main, ChannelOffset, list[Place]]] = []
        self.failed: list[tuple[list[Place], str]] = []
        self.gone: set[int] = set()
        """Streams of clients that are gone."""
        self.epoch = epoch
        self.channel = RouterChannel(
            self.storage,
            node,
            lambda: self.epoch,
            Limits(**limits),
            lambda parts: self.told.extend((main, at, list(places)) for main, at, places in parts),
            lambda places, why: self.failed.append((list(places), why)),
            lambda place: place.stream not in self.gone,
            ChannelTraffic(self.registry),
        )
        self._numbers = itertools.count()
        self.is_storage_there = True
        self.running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Written:
        self.running = asyncio.create_task(self.channel.run())
        if self.is_storage_there:
            await self.until(lambda: self.channel._sequence > 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    def take(self, size: int = 100, main: Main = EAST) -> None:
        number = next(self._numbers)
        data = number.to_bytes(8) + bytes(size - 8)
        self.channel.take(Entry(main, Place(main[1], 0, number), [data[:50], data[50:]], size))

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not done():
                await asyncio.sleep(0.005)

    def sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"treeline_zone_router_{name}", labels) or 0.0

    @property
    def count(self) -> int:
        return sum(len(entries) for _, _, entries in self.told)

    async def numbers(self) -> list[int]:
        """As a main reads them, where it is told."""
        found = []
        for _, at, _ in self.told:
            part = await self.storage.get(at.name, at.start, at.length)
            found += [int.from_bytes(given.message[:8]) for given in read(part)]
        return found


def bulks(folder: Path) -> int:
    """Objects that are not empty."""
    return sum(path.is_file() and path.stat().st_size > HEAD_BYTES for path in folder.rglob("*"))


def without_storage(folder: Path) -> Written:
    """One that comes before its storage is there."""
    written = Written(folder)
    written.is_storage_there = False
    shutil.rmtree(folder)
    folder.write_text("no folder")
    return written


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_what_is_taken_is_told_in_order_whatever_the_bulks(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path, window_seconds=0.05, bulk_bytes=5_000) as written:
            for number in range(1_000):
                written.take(100 + number % 7 * 300)
                if number % 50 == 0:
                    await asyncio.sleep(0.002)
            await written.until(lambda: written.count == 1_000)
            assert await written.numbers() == list(range(1_000))
            assert 50 < len(written.told) < 1_000 and written.channel.held_bytes == 0
            sequences = [at.sequence for _, at, _ in written.told]
            assert sequences == sorted(set(sequences)) and {at.epoch for _, at, _ in written.told} == {3}

    run(test())


def test_who_is_alone_does_not_wait_for_the_window(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path, window_seconds=3_600) as written:
            written.take()
            await written.until(lambda: written.count == 1)

    run(test())


def test_entries_of_one_main_are_one_range(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path, window_seconds=3_600) as written:
            for main in (EAST, WEST, EAST, WEST, EAST):
                written.take(main=main)
            await written.until(lambda: written.count == 5)
            found = {main: [place.number for place in places] for main, _, places in written.told}
            assert found == {EAST: [0, 2, 4], WEST: [1, 3]} and len(written.told) == 2
            (size,) = (size for size in (await written.storage.sizes("")).values() if size > HEAD_BYTES)
            assert written.sample("bulk_bytes_total") == size
            assert written.sample("bulk_seconds_count") == written.sample("bulks_total", outcome="written") == 1

    run(test())


def test_a_node_that_comes_back_goes_on_behind_what_it_wrote(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path) as before:
            before.take()
            await before.until(lambda: before.count == 1)
        async with Written(tmp_path, epoch=5) as after:
            after.take()
            await after.until(lambda: after.count == 1)
            left = await after.storage.sizes("channel/")
            assert before.told[0][1].name not in left, "what its clients asked another process is for nobody"
        assert after.told[0][1].sequence > before.told[0][1].sequence
        async with Written(tmp_path, node=8) as other:
            other.take()
            await other.until(lambda: other.count == 1)
        assert other.told[0][1].sequence == 5, "another node's names are its own"

    run(test())


def test_who_takes_a_nodes_place_meets_the_other_whatever_epochs_they_know_of(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path, epoch=9) as zombie:
            zombie.take()
            await zombie.until(lambda: zombie.count == 1)
            async with Written(tmp_path, epoch=1) as successor:
                for _ in range(3):
                    zombie.take()
                    successor.take()
                    await asyncio.sleep(0.05)
                assert zombie.running is not None and isinstance(zombie.running.exception(), ChannelFenced)
                assert zombie.count == 1 and successor.count == 3

    run(test())


def test_bulks_behind_one_that_was_fenced_are_not_told_either(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path, bulk_bytes=1_000) as zombie:
            for _ in range(20):
                zombie.take(900)
            await zombie.until(lambda: zombie.count == 20)
            async with Written(tmp_path) as successor:
                for _ in range(20):
                    zombie.take(900)
                await zombie.until(lambda: zombie.running is not None and zombie.running.done())
                assert zombie.count == 20 and sum(len(places) for places, _ in zombie.failed) <= 20
                successor.take()
                await successor.until(lambda: successor.count == 1)

    run(test())


def test_a_gap_of_bulks_that_failed_is_filled_before_more_is_written(tmp_path: Path):
    """Or who takes the node's place would begin in the gap, and meet the other one first."""
    folder = tmp_path / "channel"

    async def test() -> None:
        async with Written(folder, patience_seconds=0.3) as written:
            written.take()
            await written.until(lambda: written.count == 1)

            async def meanwhile() -> None:
                written.take()
                await written.until(lambda: len(written.failed) == 1)
                written.take()
                await asyncio.sleep(0.2)

            await away(folder, meanwhile)
            await written.until(lambda: written.count == 2)
            before, after = (at.sequence for _, at, _ in written.told)
            assert after == before + 2
            async with Written(folder) as successor:
                successor.take()
                await successor.until(lambda: successor.count == 1)
                written.take()
                await written.until(lambda: written.running is not None and written.running.done())
                assert written.count == 2

    run(test())


def test_an_own_object_that_is_there_already_is_its_own(tmp_path: Path):
    """Storage may try again by itself, and say of its second attempt that there is one."""

    class Twice(ObjectStorage):
        async def put_new(self, name: str, data: bytes) -> None:
            await super().put_new(name, data)
            await super().put_new(name, data)

    async def test() -> None:
        written = Written(tmp_path)
        written.storage.__class__ = Twice
        async with written:
            written.take()
            await written.until(lambda: written.count == 1)
            assert written.failed == []

    run(test())


def test_what_nobody_waits_for_any_more_is_left_out(tmp_path: Path):
    folder = tmp_path / "channel"

    async def test() -> None:
        async with without_storage(folder) as written:
            for main in (EAST, WEST, EAST):
                written.take(main=main)
            written.gone.add(EAST[1])
            await written.until(lambda: written.channel.held_bytes < 200)
            folder.unlink()
            folder.mkdir()
            await written.until(lambda: written.count == 1)
            assert [main for main, _, _ in written.told] == [WEST] and written.channel.held_bytes == 0

    run(test())


def test_other_files_in_the_folder_are_no_objects(tmp_path: Path):
    async def test() -> None:
        folder = tmp_path / "channel" / f"{7:010d}"
        folder.mkdir(parents=True)
        (folder / ".nfs0000000001").write_text("an open file that was deleted")
        async with Written(tmp_path) as written:
            written.take()
            await written.until(lambda: written.count == 1)

    run(test())


def test_what_nobody_reads_any_more_is_deleted_but_the_newest(tmp_path: Path):
    async def test() -> None:
        async with Written(tmp_path) as written:
            for count in range(1, 6):
                written.take()
                await written.until(lambda count=count: written.count == count)
            names = [at.name for _, at, _ in written.told]
            written.channel.trim(names)
            await written.until(lambda: bulks(tmp_path) == 1)
            left = await written.storage.sizes("channel/")
            assert names[-1] in left and not set(names[:-1]) & set(left)
            written.take()
            await written.until(lambda: written.count == 6)
            written.channel.trim([])
            await asyncio.sleep(0.1)
            assert names[-1] not in await written.storage.sizes("channel/")

    run(test())


def test_a_node_that_was_replaced_finds_its_names_taken_and_stops(tmp_path: Path):
    """It stood still, another process took its place, and it goes on: nothing of it is told any more."""

    async def test() -> None:
        async with Written(tmp_path) as zombie:
            zombie.take()
            await zombie.until(lambda: zombie.count == 1)
            async with Written(tmp_path) as successor:
                zombie.take()
                assert zombie.running is not None
                with pytest.raises(ChannelFenced, match="another process writes as node 7"):
                    async with asyncio.timeout(10):
                        await zombie.running
                assert zombie.count == 1 and "another process" in zombie.failed[0][1]
                successor.take()
                await successor.until(lambda: successor.count == 1)

    run(test())


async def away(folder: Path, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """The folder is no folder for a while."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.write_text("no folder")
    await meanwhile()
    folder.unlink()
    aside.rename(folder)


def test_a_storage_that_is_away_for_a_moment_is_asked_again(tmp_path: Path):
    folder = tmp_path / "channel"

    async def test() -> None:
        async with Written(folder) as written:
            written.take()
            await written.until(lambda: written.count == 1)

            async def meanwhile() -> None:
                for _ in range(5):
                    written.take()
                    await asyncio.sleep(0.1)

            await away(folder, meanwhile)
            await written.until(lambda: written.count == 6)
            assert await written.numbers() == list(range(6)) and written.failed == []

    run(test())


def test_a_storage_that_stays_away_is_told_and_what_comes_later_is_written(tmp_path: Path):
    folder = tmp_path / "channel"

    async def test() -> None:
        async with Written(folder, patience_seconds=0.3) as written:

            async def meanwhile() -> None:
                written.take()
                await written.until(lambda: bool(written.failed))

            await away(folder, meanwhile)
            (entries, why), *_ = written.failed
            assert [place.number for place in entries] == [0] and why
            assert written.channel.held_bytes == 0
            assert written.sample("bulks_total", outcome="failed") == 1
            written.take()
            await written.until(lambda: written.count == 1)
            assert written.sample("bulks_total", outcome="written") == 1

    run(test())


def test_a_storage_that_is_away_at_the_beginning_is_waited_for(tmp_path: Path):
    folder = tmp_path / "channel"

    async def test() -> None:
        async with without_storage(folder) as written:
            written.take()
            await asyncio.sleep(0.3)
            assert written.count == 0
            folder.unlink()
            folder.mkdir()
            await written.until(lambda: written.count == 1)

    run(test())


def test_a_full_disk_is_told_and_when_there_is_room_it_goes_on(tmp_path: Path):
    with small_disk(tmp_path / "disk", megabytes=1) as disk:

        async def test() -> None:
            async with Written(disk, patience_seconds=0.3) as written:
                written.take(600_000)
                await written.until(lambda: written.count == 1)
                written.take(600_000)
                await written.until(lambda: len(written.failed) == 1)
                await written.storage.delete([written.told[0][1].name])
                written.take(600_000)
                await written.until(lambda: written.count == 2)
                assert [place.number for place in written.told[1][2]] == [2]

        run(test())
