"""The router channel of one node: what clients produce, written to object storage in bulks.

A bulk is closed when it has a window's age or a bulk's bytes; while nothing is being written, at once: who is
alone does not wait. Bulks are written side by side, and told in their order, so that what one client sent first is
first everywhere. An object's name is the next of a sequence and is written only if it is not there: a node that
was replaced, and goes on, finds its names taken and stops. Source: the zone router's document, "Write".
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from workers.zone_router.bulk import (
    HEAD_BYTES,
    BulkMalformed,
    ChannelOffset,
    Entry,
    Head,
    Main,
    node_prefix,
    object_name,
    read_head,
    written,
)
from workers.zone_router.object_storage import AlreadyWritten, ObjectStorage, StorageFailed

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0

_LOG = structlog.get_logger(__name__)


class Part(NamedTuple):
    """What a bulk has for one main, and where it is written."""

    main: Main
    at: ChannelOffset
    entries: Sequence[Entry]


Told = Callable[[Sequence[Part]], None]
"""A bulk is written: its parts."""
Failed = Callable[[Sequence[Entry], str], None]
"""These entries could not be written, and why."""


class ChannelFenced(Exception):
    """Another process writes under this node's name."""


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
    ) -> None:
        self._storage, self._node, self._epoch, self._limits = storage, node, epoch, limits
        self._told, self._failed = told, failed
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._waiting_since = 0.0
        self._writing: deque[asyncio.Task[None]] = deque()
        self._sequence = 0
        self._changed = asyncio.Event()
        self._before: asyncio.Task[None] | None = None
        self._trimming: set[asyncio.Task[None]] = set()
        self._untrimmed: list[str] = []
        self._newest = ""
        """Of the objects that were written."""
        self._process = secrets.randbits(64)
        self._fenced: str | None = None
        self.held_bytes = 0
        """Taken and not told or failed yet."""

    async def run(self) -> None:
        """Write what comes until it is cancelled. Raises ChannelFenced."""
        while not await self._has_begun():
            await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
        try:
            while True:
                await self._due()
                self._start()
        finally:
            for task in (*self._writing, *self._trimming):
                task.cancel()

    def take(self, entry: Entry) -> None:
        """Write it with the next bulk."""
        if not self._waiting:
            self._waiting_since = asyncio.get_running_loop().time()
        self._waiting.append(entry)
        self._waiting_bytes += entry.stored_bytes
        self.held_bytes += entry.stored_bytes
        self._changed.set()

    def trim(self, names: Sequence[str]) -> None:
        """Delete objects that nobody reads any more.

        The newest stays, or who takes this node's place would not see where its names go on. What cannot be
        deleted now is with the next.
        """
        self._untrimmed += names
        due = [name for name in self._untrimmed if name != self._newest]
        self._untrimmed = [name for name in self._untrimmed if name == self._newest]
        if due:
            task = asyncio.create_task(self._delete(due))
            self._trimming.add(task)
            task.add_done_callback(self._trimming.discard)

    async def _delete(self, names: Sequence[str]) -> None:
        try:
            await self._storage.delete(names)
        except StorageFailed as error:
            self._untrimmed += names
            _LOG.warning("zone_router.bulk_not_deleted", why=str(error))

    async def _has_begun(self) -> bool:
        try:
            await self._begin()
        except AlreadyWritten as error:
            raise ChannelFenced(f"another process writes as node {self._node}: {error}") from None
        except StorageFailed as error:
            _LOG.warning("zone_router.storage_away", why=str(error))
            return False
        return True

    async def _begin(self) -> None:
        """Go on behind what this node wrote before, with an object that takes the sequence over."""
        names = await self._storage.names(node_prefix(self._node))
        self._sequence = max((int(name.rpartition("/")[2]) for name in names), default=-1) + 1
        claim = written(Head(self._node, self._sequence, self._process), [])
        self._newest = object_name(self._node, self._epoch(), self._sequence)
        await self._storage.put_new(self._newest, claim.data)
        self._sequence += 1
        # Whoever was told of these asked another process, which is gone, and its clients with it.
        self.trim(names)

    async def _due(self) -> None:
        """Until a bulk is to be closed."""
        while True:
            if self._fenced:
                raise ChannelFenced(self._fenced)
            self._changed.clear()
            timeout = None
            if self._waiting and len(self._writing) < self._limits.side_by_side:
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

    def _start(self) -> None:
        """Close the bulk that waits, and begin to write it. What is beyond its bytes is of the next one."""
        taken, size = 0, 0
        while taken < len(self._waiting) and (not taken or size < self._limits.bulk_bytes):
            size += self._waiting[taken].stored_bytes
            taken += 1
        entries, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._waiting_bytes -= size
        epoch, sequence = self._epoch(), self._sequence
        self._sequence += 1
        self._before = asyncio.create_task(self._write(epoch, sequence, entries, self._before))
        self._writing.append(self._before)
        self._before.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._writing.remove(task)
        self._changed.set()

    async def _write(
        self, epoch: int, sequence: int, entries: list[Entry], before: asyncio.Task[None] | None
    ) -> None:
        bulk = written(Head(self._node, sequence, self._process), entries)
        place = ChannelOffset(self._node, epoch, sequence, 0, len(bulk.data))
        why = await self._put(place.name, bulk.data)
        if before is not None:
            await asyncio.wait([before])
        self.held_bytes -= sum(entry.stored_bytes for entry in entries)
        if why is not None:
            self._failed(entries, why)
            return
        self._newest = place.name  # they come here in their order
        parts = [
            Part(main, place._replace(start=start, length=length), [each for each in entries if each.main == main])
            for main, (start, length) in bulk.parts.items()
        ]
        self._told(parts)

    async def _put(self, name: str, data: bytes) -> str | None:
        """Write it, in several attempts; why it could not be."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
        deadline, tried = loop.time() + self._limits.patience_seconds, False
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._storage.put_new(name, data)
            except AlreadyWritten as error:
                if tried and await self._is_ours(name):
                    return None  # by the attempt before, whose answer did not come
                self._fenced = f"another process writes as node {self._node}: {error}"
                return self._fenced
            except (StorageFailed, TimeoutError) as error:
                why = str(error) or f"no answer within {self._limits.patience_seconds:g} s"
                _LOG.warning("zone_router.bulk_not_written", why=why)
                if loop.time() + pause >= deadline:
                    return why
            else:
                return None
            tried = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _is_ours(self, name: str) -> bool:
        try:
            return read_head(await self._storage.get(name, 0, HEAD_BYTES)).process == self._process
        except (StorageFailed, BulkMalformed):
            return False
