"""A running router channel for tests."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from workers.zone_router.formats.bulk import HEAD_BYTES, ChannelOffset, Entry, Main, Place, read
from workers.zone_router.object_storage import ObjectStorage
from workers.zone_router.proxy.channel import Limits, RouterChannel
from workers.zone_router.traffic import ChannelTraffic

EAST, WEST = ("east", 1), ("west", 2)
# AT_FDCWD and RENAME_EXCHANGE of Linux.
_HERE, _EXCHANGE = -100, 2


class Written:
    """A running channel, and the bulks that it announced."""

    def __init__(
        self, at: Path | str, node: int = 7, epoch: int = 3, options: dict[str, str] | None = None, **limits: Any
    ) -> None:
        """Set up a channel on `at`, a folder or the URL of a storage."""
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
        """Read the announced entries as a main does."""
        found = []
        for _, at, _ in self.told:
            part = await self.storage.get(at.name, at.start, at.length)
            found += [int.from_bytes(given.message[:8]) for given in read(part)]
        return found


def bulks(folder: Path) -> int:
    """Return the objects that are not empty."""
    return sum(path.is_file() and path.stat().st_size > HEAD_BYTES for path in folder.rglob("*"))


def without_storage(folder: Path) -> Written:
    """Start a channel whose storage does not exist yet."""
    written = Written(folder)
    written.is_storage_there = False
    shutil.rmtree(folder)
    folder.write_text("no folder")
    return written


async def away(folder: Path, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Replace the folder by a file for a while, so that storage fails."""
    aside = folder.with_name("aside")
    aside.write_text("no folder")
    exchange(aside, folder)
    await meanwhile()
    exchange(aside, folder)
    aside.unlink()


def exchange(one: Path, other: Path) -> None:
    """Exchange two paths in one step (renameat2(2)): where nothing was, storage would make a new folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "cannot be exchanged", str(one), None, str(other))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)
