"""Write a main's confirm WAL: objects of a sequence, one after the other.

A name is used once. A new process of the same main takes the next name. The previous process, which writes each
object only after the one before is stored, finds its next name taken and stops. Source: the zone router's
document, "Write".
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence

import structlog

from workers.zone_router.formats import wal
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.wal import WalHead, WalRecord, wal_name
from workers.zone_router.main.followed_batch import FollowedBatch
from workers.zone_router.object_storage import ObjectStorage, StorageFailed

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_STORAGE_SECONDS = 10.0
_MOST_OBJECT_BYTES = 8 * 1024 * 1024

_LOG = structlog.get_logger(__name__)


class WalFenced(Exception):
    """Another process writes as this main."""


class ConfirmWal:
    """Writer of one main's WAL; used by one event loop."""

    def __init__(
        self,
        storage: ObjectStorage,
        main: Main,
        window_seconds: float,
        stored: Callable[[Sequence[FollowedBatch]], None],
    ) -> None:
        """Set up the writer.

        `stored` is called with the batches of each stored object, in order, after `end` was raised.
        """
        self._storage, self._main, self._window, self._stored = storage, main, window_seconds, stored
        self._process = secrets.randbits(64)
        self._waiting: list[FollowedBatch] = []
        self._changed = asyncio.Event()
        self.added = self.done = 0
        """Number of batches that were added, and of those that are stored."""
        self.end = 0
        """Sequence of the next object."""
        self.waiting_bytes = self.written_bytes = 0

    async def begin(self, end: int) -> bool:
        """Take the name after all existing ones; return False if another process has it. Raises StorageFailed."""
        self.end = end
        if not await self._is_put([]):
            return False
        self.end += 1
        return True

    def add(self, followed: FollowedBatch) -> None:
        self._waiting.append(followed)
        self.waiting_bytes += len(followed.batch)
        self.added += 1
        self._changed.set()

    async def run(self) -> None:
        """Write batches as they arrive. Raises WalFenced."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            begun = loop.time()
            taken = self._take()
            # An aborted transaction goes with its marker, as a later record may say that the log was truncated
            # before it.
            records = [(each.record, each.aborted) for each in taken]
            await self._put([each for pair in records for each in pair if each])
            self.end += 1
            self.waiting_bytes -= sum(len(each.batch) for each in taken)
            self.done += len(taken)
            self._stored(taken)
            if not self._waiting:
                self._changed.clear()
            await asyncio.sleep(max(0.0, begun + self._window - loop.time()))

    def _take(self) -> list[FollowedBatch]:
        count = size = 0
        while count < len(self._waiting) and size < _MOST_OBJECT_BYTES:
            size += len(self._waiting[count].batch)
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    async def _put(self, records: Sequence[WalRecord]) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                async with asyncio.timeout(_STORAGE_SECONDS):
                    if await self._is_put(records):
                        return
                raise WalFenced(f"another process writes as the main of {self._main}: {self.end} is taken")
            except (StorageFailed, TimeoutError) as error:
                _LOG.warning("zone_router.wal_not_written", why=str(error) or "no answer")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _is_put(self, records: Sequence[WalRecord]) -> bool:
        data = wal.written(WalHead(self.end, self._process), records)
        is_ours = await self._storage.put_own(wal_name(self._main, self.end), data, wal.HEAD_BYTES)
        self.written_bytes += len(data) if is_ours else 0
        return is_ours
