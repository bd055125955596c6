"""The router channel on a real folder that fails, is full, or does not respond."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.machine.disks import small_disk
from tests.unit.zones.channel import EAST, WEST, Written, away, bulks, run, without_storage
from workers.zone_router.object_storage import ObjectStorage, StorageFailed


def test_a_gap_of_bulks_that_failed_is_filled_before_more_is_written(tmp_path: Path):
    """Without that, a successor would start in the gap and meet the other process first."""
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
    """The storage client may retry by itself, and report on its second attempt that the object exists."""

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


def test_a_bulk_that_was_given_up_and_is_there_nevertheless_is_deleted(tmp_path: Path):
    """Storage has the object, but its response was lost."""

    class Unheard(ObjectStorage):
        is_heard = True

        async def put_new(self, name: str, data: bytes) -> None:
            try:
                await super().put_new(name, data)
            finally:
                if not self.is_heard:
                    raise StorageFailed("the connection was lost")

    async def test() -> None:
        written = Written(tmp_path, patience_seconds=0.3)
        written.storage.__class__ = Unheard
        async with written:
            written.storage.is_heard = False  # type: ignore[attr-defined]
            written.take()
            await written.until(lambda: len(written.failed) == 1)
            assert bulks(tmp_path) == 1
            written.storage.is_heard = True  # type: ignore[attr-defined]
            written.take()
            await written.until(lambda: written.count == 1)
            written.channel.trim([])
            await written.until(lambda: bulks(tmp_path) == 1)
            assert await written.numbers() == [1]

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
            folder.mkdir(exist_ok=True)  # storage makes it, too
            await written.until(lambda: written.count == 1)
            assert [main for main, _, _ in written.told] == [WEST] and written.channel.held_bytes == 0

    run(test())


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
            folder.mkdir(exist_ok=True)  # storage makes it, too
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
