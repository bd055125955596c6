"""Read objects through two caches in memory.

Log tails (the document's snapshot-read cache) and blocks (its block cache) have separate limits, so that a reader
of old records does not evict what all others are about to read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from workers.zone_router.object_storage import ObjectStorage


class Cache:
    """LRU cache of pieces of objects."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._pieces: OrderedDict[tuple[str, int], memoryview] = OrderedDict()
        self._starts: dict[str, list[int]] = {}
        self.bytes = 0

    def put(self, name: str, start: int, data: memoryview) -> None:
        """Add a piece; one larger than the cache is ignored."""
        key = (name, start)
        if len(data) > self._most:
            return
        if (before := self._pieces.pop(key, None)) is not None:
            self.bytes -= len(before)
        else:
            self._starts.setdefault(name, []).append(start)
        self._pieces[key] = data
        self.bytes += len(data)
        while self.bytes > self._most:
            self._drop(next(iter(self._pieces)))

    def get(self, name: str, start: int, size: int) -> memoryview | None:
        for first in self._starts.get(name, ()):
            piece = self._pieces[name, first]
            if first <= start and start + size <= first + len(piece):
                self._pieces.move_to_end((name, first))
                return piece[start - first : start - first + size]
        return None

    def forget(self, prefix: str) -> None:
        for key in [key for key in self._pieces if key[0].startswith(prefix)]:
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        self.bytes -= len(self._pieces.pop(key))
        starts = self._starts[key[0]]
        starts.remove(key[1])
        if not starts:
            del self._starts[key[0]]


class ObjectCache:
    """Cached object reads of one node; used by one event loop."""

    def __init__(self, storage: ObjectStorage, tail_bytes: int, block_bytes: int) -> None:
        self._storage = storage
        self.tail, self.blocks = Cache(tail_bytes), Cache(block_bytes)
        self._coming: dict[tuple[str, int, int], asyncio.Task[memoryview]] = {}

    def cached(self) -> dict[str, int]:
        """Return the bytes in each cache."""
        return {"ends of logs": self.tail.bytes, "blocks": self.blocks.bytes}

    def keep(self, name: str, data: bytes) -> None:
        """Cache an object that this node has written."""
        self.tail.put(name, 0, memoryview(data))

    def forget(self, prefix: str) -> None:
        """Drop objects with this prefix, whose content has changed."""
        self.tail.forget(prefix)
        self.blocks.forget(prefix)

    async def get(self, name: str, start: int, size: int, *, of_block: bool = False) -> memoryview:
        """Return a range of an object. Raises ObjectMissing, StorageFailed."""
        cache = self.blocks if of_block else self.tail
        found = cache.get(name, start, size)
        if found is None:
            found = await self._once(
                (name, start, size), lambda: self._storage.get(name, start, size), cache, start
            )
        return found

    async def whole(self, name: str) -> memoryview:
        """Return a whole object at the end of a log. Raises ObjectMissing, StorageFailed."""
        return await self._once((name, 0, -1), lambda: self._storage.whole(name), self.tail, 0)

    async def _once(
        self, key: tuple[str, int, int], read: Callable[[], object], cache: Cache, start: int
    ) -> memoryview:
        """Share one read between concurrent callers."""
        task = self._coming.get(key)
        if task is None:

            async def come() -> memoryview:
                try:
                    data: memoryview = await read()  # type: ignore[misc]
                    cache.put(key[0], start, data)
                    return data
                finally:
                    self._coming.pop(key, None)

            task = self._coming[key] = asyncio.create_task(come())
        return await asyncio.shield(task)
