"""Router channel of one node: write produced data to object storage in bulks.

A bulk is closed when it reaches the age of a window or the size of a bulk; while no bulk is being written, at
once, so that a single client does not wait. Bulks are written concurrently and announced in order, so that each
client's order is kept. Object names are a sequence, and an object is created only if its name is free: a node that
was replaced but still runs finds its names taken and stops (`succession`). Source: the zone router's document,
"Write".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from workers.zone_router.formats.bulk import ChannelOffset, Entry, Main, Place, object_name, written
from workers.zone_router.object_storage import ObjectStorage, StorageFailed
from workers.zone_router.proxy.succession import ChannelFenced, Holder, Succession
from workers.zone_router.traffic import ChannelTraffic

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_STORAGE_SECONDS = 10.0
"""Timeout in seconds for requests to storage that serve no client."""
_TRIM_SECONDS = 0.25
"""Seconds between deletions; before each, storage is asked whether this process still is the node."""

_LOG = structlog.get_logger(__name__)


class Part(NamedTuple):
    """A bulk's part for one main, and its position."""

    main: Main
    at: ChannelOffset
    places: Sequence[Place]
    """Places of the entries, in order. Streams keep the entries themselves until they are answered."""


Written = Callable[[Sequence[Part]], None]
"""Callback for the parts of a written bulk."""
Failed = Callable[[Sequence[Place], str], None]
"""Callback for entries that could not be written, with the reason."""
Wanted = Callable[[Place], bool]
"""Function that returns whether an entry is still to be written."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a node's bulks."""

    window_seconds: float = 0.25
    bulk_bytes: int = 8 * 1024 * 1024
    concurrent_writes: int = 4
    """Most bulks written concurrently."""
    held_bytes: int = 256 * 1024 * 1024
    """Bytes of unanswered requests above which clients are paused."""
    patience_seconds: float = 10.0
    """Seconds for which a bulk is retried; then its clients are disconnected and retry themselves."""


class RouterChannel:
    """Writer of entries; used by one event loop."""

    def __init__(
        self,
        storage: ObjectStorage,
        node: int,
        epoch: Callable[[], int],
        limits: Limits,
        announce: Written,
        failed: Failed,
        wanted: Wanted,
        traffic: ChannelTraffic,
        *,
        left: Callable[[Sequence[str]], None] | None = None,
        kept: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """Set up the writer.

        `left` receives the bulks of earlier processes of this node, which are deleted if it is not given; `kept`
        receives each written object.
        """
        self._storage, self._node, self._epoch, self._limits = storage, node, epoch, limits
        self._announce, self._failed, self._wanted = announce, failed, wanted
        self._traffic, self._left, self._kept = traffic, left or self.trim, kept
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._waiting_since = 0.0
        self._writing: deque[asyncio.Task[None]] = deque()
        self._filling = 0
        """Names of failed bulks that are still to be filled."""
        self._sequence = 0
        self._changed = asyncio.Event()
        self._before: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._untrimmed: list[str] = []
        self._newest = ""
        """Name of the newest written object."""
        self._trimming: asyncio.Task[None] | None = None
        self._succession = Succession(storage, node, limits.concurrent_writes)
        self._over: Exception | None = None
        self.held_bytes = 0
        """Bytes that were taken and are neither announced nor failed."""

    async def run(self) -> None:
        """Write entries until cancelled. Raises ChannelFenced, and unexpected errors."""
        while not await self._has_begun():
            self._drop_unwanted()
            await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
        try:
            while True:
                await self._due()
                self._start()
        except ChannelFenced:
            if self._writing:  # to notify their clients
                await asyncio.wait(self._writing, timeout=_LONGEST_PAUSE_SECONDS)
            raise
        finally:
            for task in (*self._writing, *self._background):
                task.cancel()

    def take(self, entry: Entry) -> None:
        """Add an entry to the next bulk."""
        if not self._waiting:
            self._waiting_since = asyncio.get_running_loop().time()
        self._waiting.append(entry)
        self._waiting_bytes += entry.stored_bytes
        self.held_bytes += entry.stored_bytes
        if len(self._waiting) == 1 or self._waiting_bytes >= self._limits.bulk_bytes:
            self._changed.set()

    def trim(self, names: Sequence[str]) -> None:
        """Delete objects that are no longer read.

        Deletions are batched. The newest object stays, as a successor continues after it. Failed deletions are
        retried with the next batch.
        """
        self._untrimmed += names
        if self._trimming is None or self._trimming.done():
            self._trimming = self._start_task(self._trim())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _trim(self) -> None:
        await asyncio.sleep(_TRIM_SECONDS)
        while due := [name for name in self._untrimmed if name < self._newest]:
            self._untrimmed = [name for name in self._untrimmed if name >= self._newest]
            try:
                async with asyncio.timeout(_STORAGE_SECONDS):
                    # A successor continues after the newest object that it finds, so that must not be deleted.
                    if await self._succession.is_over():
                        self._end(self._succession.fenced())
                        return
                    await self._storage.delete(due)
            except (StorageFailed, TimeoutError) as error:
                self._untrimmed += due
                _LOG.warning("zone_router.bulk_not_deleted", why=str(error) or "no answer")
                return

    def _end(self, why: Exception) -> None:
        self._over = self._over or why
        self._changed.set()

    async def _has_begun(self) -> bool:
        try:
            async with asyncio.timeout(_STORAGE_SECONDS):
                self._sequence, left = await self._succession.come()
        except (StorageFailed, TimeoutError) as error:
            _LOG.warning("zone_router.storage_away", why=str(error) or "no answer")
            return False
        self._newest = object_name(self._node, self._sequence - 1)
        self._left(left)
        return True

    async def _due(self) -> None:
        """Wait until a bulk is to be closed."""
        while True:
            if self._over:
                raise self._over
            self._changed.clear()
            timeout = None
            if self._waiting and not self._filling and len(self._writing) < self._limits.concurrent_writes:
                age = asyncio.get_running_loop().time() - self._waiting_since
                is_full = self._waiting_bytes >= self._limits.bulk_bytes
                if not self._writing or is_full or age >= self._limits.window_seconds:
                    return
                timeout = self._limits.window_seconds - age
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _drop_unwanted(self) -> None:
        """Drop entries that are no longer wanted."""
        gone = [entry for entry in self._waiting if not self._wanted(entry.place)]
        if gone:
            self._waiting = [entry for entry in self._waiting if self._wanted(entry.place)]
            size = sum(entry.stored_bytes for entry in gone)
            self._waiting_bytes -= size
            self.held_bytes -= size

    def _start(self) -> None:
        """Close the collected bulk and start to write it; entries beyond its size limit are left for the next."""
        self._drop_unwanted()
        taken, size = 0, 0
        while taken < len(self._waiting) and (not taken or size < self._limits.bulk_bytes):
            size += self._waiting[taken].stored_bytes
            taken += 1
        if not taken:
            return
        entries, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._waiting_bytes -= size
        epoch, sequence = self._epoch(), self._sequence
        self._sequence += 1
        self._before = asyncio.create_task(self._write(epoch, sequence, entries, self._before))
        self._writing.append(self._before)
        self._before.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._writing.remove(task)
        if not task.cancelled() and (error := task.exception()):
            self._end(ChannelFenced(f"a bulk could not be announced: {error!r}"))
        self._changed.set()

    async def _write(
        self, epoch: int, sequence: int, entries: list[Entry], before: asyncio.Task[None] | None
    ) -> None:
        bulk = written(self._succession.head(sequence), entries)
        whole = ChannelOffset(self._node, epoch, sequence, 0, len(bulk.data))
        begun_at = asyncio.get_running_loop().time()
        why = await self._put(whole.name, bulk.data)
        if why is None:
            self._traffic.wrote(len(bulk.data), asyncio.get_running_loop().time() - begun_at)
        else:
            self._traffic.failed()
        if before is not None:
            await asyncio.wait([before])
        self.held_bytes -= sum(entry.stored_bytes for entry in entries)
        if why is not None or self._over:
            self._failed([entry.place for entry in entries], why or str(self._over))
            return
        self._newest = whole.name  # bulks arrive here in order
        if self._kept:
            self._kept(whole.name, bulk.data)
        parts = [
            Part(
                main,
                whole._replace(start=start, length=length),
                [entry.place for entry in entries if entry.main == main],
            )
            for main, (start, length) in bulk.parts.items()
        ]
        self._announce(parts)

    async def _put(self, name: str, data: bytes) -> str | None:
        """Write an object with retries; return the reason if that fails."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
        deadline = loop.time() + self._limits.patience_seconds
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._taken_by_another(name, data)
            except (StorageFailed, TimeoutError) as error:
                why = str(error) or f"no response within {self._limits.patience_seconds:g} s"
                _LOG.warning("zone_router.bulk_not_written", why=why)
            if self._over:
                return why
            if loop.time() + pause >= deadline:
                self._filling += 1
                self._start_task(self._fill(name))
                return why
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _taken_by_another(self, name: str, data: bytes) -> str | None:
        """Write an object; return None if it is ours, by this or an earlier attempt, else the reason.

        Raises StorageFailed.
        """
        holder = await self._succession.put(name, data)
        if holder is Holder.LATER:
            self._end(self._succession.fenced())
        return None if holder is Holder.OURS else f"{name} was taken by another process of this node"

    async def _fill(self, name: str) -> None:
        """Fill the name of a failed bulk, as a gap would hide a successor.

        If the bulk was written after all, it is not needed: its clients were disconnected.
        """
        while True:
            try:
                async with asyncio.timeout(_STORAGE_SECONDS):
                    other = await self._taken_by_another(name, self._succession.empty(name))
                    if other is None and not await self._succession.is_empty(name):
                        self.trim([name])
                    break
            except (StorageFailed, TimeoutError):
                self._drop_unwanted()
                await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
        self._filling -= 1
        self._changed.set()
