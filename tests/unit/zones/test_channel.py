"""The router channel on a real folder: order, bulks, and a node that was replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.zones.channel import EAST, WEST, Written, bulks, run
from workers.zone_router.formats.bulk import HEAD_BYTES
from workers.zone_router.proxy.channel import Limits
from workers.zone_router.proxy.succession import ChannelFenced, Succession


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
            async with asyncio.timeout(30):  # requests to an earlier process have no client any more
                while before.told[0][1].name in await after.storage.sizes("channel/"):
                    await asyncio.sleep(0.01)
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
            while names[-1] in await written.storage.sizes("channel/"):
                await asyncio.sleep(0.01)
            assert bulks(tmp_path) == 1

    run(test())


def test_a_node_that_was_replaced_finds_its_names_taken_and_stops(tmp_path: Path):
    """A process stalls, another takes its place, and the first resumes: it announces nothing any more."""

    async def test() -> None:
        async with Written(tmp_path) as zombie:
            zombie.take()
            await zombie.until(lambda: zombie.count == 1)
            async with Written(tmp_path) as successor:
                zombie.take()
                assert zombie.running is not None
                with pytest.raises(ChannelFenced, match="a later process runs as node 7"):
                    async with asyncio.timeout(10):
                        await zombie.running
                assert zombie.count == 1 and "another process" in zombie.failed[0][1]
                successor.take()
                await successor.until(lambda: successor.count == 1)

    run(test())


def test_a_node_that_was_replaced_deletes_nothing_and_ends(tmp_path: Path):
    """The successor continues after the newest object that it finds."""

    async def test() -> None:
        async with Written(tmp_path) as zombie:
            for count in (1, 2):
                zombie.take()
                await zombie.until(lambda count=count: zombie.count == count)
            await Succession(zombie.storage, 7, Limits().concurrent_writes).come()
            first = zombie.told[0][1].name
            zombie.channel.trim([first])
            assert zombie.running is not None
            with pytest.raises(ChannelFenced, match="a later process runs as node 7"):
                async with asyncio.timeout(10):
                    await zombie.running
            assert first in await zombie.storage.sizes("channel/")

    run(test())
