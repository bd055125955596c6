"""The router channel of one node: what clients produce, written to object storage in bulks.

A bulk is closed when it has a window's age or a bulk's bytes; while nothing is being written, at once: who is
alone does not wait. Bulks are written side by side, and told in their order, so that what one client sent first is
first everywhere. An object's name is the next of a sequence and is written only if it is not there: a node that
was replaced, and goes on, finds its names taken and stops (`succession`). Source: the zone router's document,
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
"""For what is not a client's: a storage that hangs is asked again."""
_TRIM_SECONDS = 0.25
"""Objects that are due are deleted together: before each deletion storage is asked whether this node goes on."""

_LOG = structlog.get_logger(__name__)


class Part(NamedTuple):
    """What a bulk has for one main, and where it is written."""

    main: Main
    at: ChannelOffset
    places: Sequence[Place]
    """Of its entries, in order. The entries themselves are kept by their streams, until they are answered."""


Told = Callable[[Sequence[Part]], None]
"""A bulk is written: its parts."""
Failed = Callable[[Sequence[Place], str], None]
"""These entries could not be written, and why."""
Wanted = Callable[[Place], bool]
"""Whether anybody still waits for the entry to be written."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of a node's bulks."""

    window_seconds: float = 0.25
    bulk_bytes: int = 8 * 1024 * 1024
    side_by_side: int = 4
    """Bulks that are written at the same time."""
    held_bytes: int = 256 * 1024 * 1024
    """Of requests that are not answered, beyond which clients are not read from."""
    patience_seconds: float = 10.0
    """How long a bulk is tried again; then its clients are let down, and try by themselves."""


class RouterChannel:
    """Takes entries and writes them; used by one event loop."""

    def __init__(
        self,
        storage: ObjectStorage,
        node: int,
        epoch: Callable[[], int],
        limits: Limits,
        told: Told,
        failed: Failed,
        wanted: Wanted,
        traffic: ChannelTraffic,
        *,
        left: Callable[[Sequence[str]], None] | None = None,
        kept: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """`left` is told of bulks of processes that were this node before, which are deleted without it; `kept` is
        given each object that is written.
        """
        self._storage, self._node, self._epoch, self._limits = storage, node, epoch, limits
        self._told, self._failed, self._wanted = told, failed, wanted
        self._traffic, self._left, self._kept = traffic, left or self.trim, kept
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._waiting_since = 0.0
        self._writing: deque[asyncio.Task[None]] = deque()
        self._filling = 0
        """Names that a failed bulk has left, and that are not taken yet."""
        self._sequence = 0
        self._changed = asyncio.Event()
        self._before: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._untrimmed: list[str] = []
        self._newest = ""
        """Of the objects that were written."""
        self._trimming: asyncio.Task[None] | None = None
        self._succession = Succession(storage, node, limits.side_by_side)
        self._over: Exception | None = None
        self.held_bytes = 0
        """Taken and not told or failed yet."""

    async def run(self) -> None:
        """Write what comes until it is cancelled. Raises ChannelFenced, and what nobody has thought of."""
        while not await self._has_begun():
            self._leave_out()
            await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
        try:
            while True:
                await self._due()
                self._start()
        except ChannelFenced:
            if self._writing:  # their clients are told
                await asyncio.wait(self._writing, timeout=_LONGEST_PAUSE_SECONDS)
            raise
        finally:
            for task in (*self._writing, *self._beside):
                task.cancel()

    def take(self, entry: Entry) -> None:
        """Write it with the next bulk."""
        if not self._waiting:
            self._waiting_since = asyncio.get_running_loop().time()
        self._waiting.append(entry)
        self._waiting_bytes += entry.stored_bytes
        self.held_bytes += entry.stored_bytes
        if len(self._waiting) == 1 or self._waiting_bytes >= self._limits.bulk_bytes:
            self._changed.set()

    def trim(self, names: Sequence[str]) -> None:
        """Delete objects that nobody reads any more.

        A little later, with others. The newest stays, or who takes this node's place would not see where its names
        go on. What cannot be deleted then is with the next.
        """
        self._untrimmed += names
        if self._trimming is None or self._trimming.done():
            self._trimming = self._do_beside(self._trim())

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task

    async def _trim(self) -> None:
        await asyncio.sleep(_TRIM_SECONDS)
        while due := [name for name in self._untrimmed if name < self._newest]:
            self._untrimmed = [name for name in self._untrimmed if name >= self._newest]
            try:
                async with asyncio.timeout(_STORAGE_SECONDS):
                    # Who comes as this node goes on behind what it finds: it has to find what is newest now.
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
        """Until a bulk is to be closed."""
        while True:
            if self._over:
                raise self._over
            self._changed.clear()
            timeout = None
            if self._waiting and not self._filling and len(self._writing) < self._limits.side_by_side:
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

    def _leave_out(self) -> None:
        """What nobody waits for any more."""
        gone = [entry for entry in self._waiting if not self._wanted(entry.place)]
        if gone:
            self._waiting = [entry for entry in self._waiting if self._wanted(entry.place)]
            size = sum(entry.stored_bytes for entry in gone)
            self._waiting_bytes -= size
            self.held_bytes -= size

    def _start(self) -> None:
        """Close the bulk that waits, and begin to write it. What is beyond its bytes is of the next one."""
        self._leave_out()
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
            self._end(ChannelFenced(f"a bulk could not be told of: {error!r}"))
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
        self._newest = whole.name  # they come here in their order
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
        self._told(parts)

    async def _put(self, name: str, data: bytes) -> str | None:
        """Write it, in several attempts; why it could not be."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
        deadline = loop.time() + self._limits.patience_seconds
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._taken_by_another(name, data)
            except (StorageFailed, TimeoutError) as error:
                why = str(error) or f"no answer within {self._limits.patience_seconds:g} s"
                _LOG.warning("zone_router.bulk_not_written", why=why)
            if self._over:
                return why
            if loop.time() + pause >= deadline:
                self._filling += 1
                self._do_beside(self._fill(name))
                return why
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _taken_by_another(self, name: str, data: bytes) -> str | None:
        """Write it; None if it is ours, now or by an attempt before. Raises StorageFailed."""
        holder = await self._succession.put(name, data)
        if holder is Holder.LATER:
            self._end(self._succession.fenced())
        return None if holder is Holder.OURS else f"{name} is taken by another process that came as this node"

    async def _fill(self, name: str) -> None:
        """Take the name of a bulk that could not be written: a gap would hide who takes this node's place.

        If it was written and nobody heard of it, nobody needs it: its clients were let down.
        """
        while True:
            try:
                async with asyncio.timeout(_STORAGE_SECONDS):
                    other = await self._taken_by_another(name, self._succession.empty(name))
                    if other is None and not await self._succession.is_empty(name):
                        self.trim([name])
                    break
            except (StorageFailed, TimeoutError):
                self._leave_out()
                await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
        self._filling -= 1
        self._changed.set()
