"""Ensure that only the newest process of a node writes to its channel.

Every process draws the node's next number; the objects that register numbers are never deleted. Then it lists the
node's bulks and claims the names after the newest with empty objects, until it owns as many in a row as bulks are
written concurrently. Names are written once, and empty objects are never deleted, so the previous process finds
one of them taken and stops. To ensure that it cannot have passed those names and deleted its objects there, every
process checks for a later number before it deletes anything. Decision 45 has the proof.
"""

from __future__ import annotations

import asyncio
import enum
import secrets
from typing import NamedTuple

from workers.zone_router.formats.bulk import (
    HEAD_BYTES,
    BulkMalformed,
    Head,
    is_object_name,
    node_prefix,
    object_name,
    process_name,
    process_prefix,
    read_head,
    sequence_of,
    written,
)
from workers.zone_router.object_storage import AlreadyWritten, ObjectMissing, ObjectStorage, StorageFailed

_CHANCE_BITS = 32
"""Random bits after the process's number in a bulk's head."""


class ChannelFenced(Exception):
    """Another process writes as this node."""


class Holder(enum.Enum):
    """Owner of an object's name."""

    OURS = enum.auto()
    EARLIER = enum.auto()
    """An earlier process, which never wrote or is about to stop."""
    LATER = enum.auto()


class Beginning(NamedTuple):
    """Starting point of a process."""

    sequence: int
    """Sequence of its first bulk."""
    left: list[str]
    """Bulks of earlier processes. Clients that were promised them have lost their connections."""


class Succession:
    """Succession protocol for one process. All methods raise StorageFailed."""

    def __init__(self, storage: ObjectStorage, node: int, concurrent_writes: int) -> None:
        self._storage, self._node, self._concurrent_writes = storage, node, concurrent_writes
        self._drawn = secrets.randbits(_CHANCE_BITS)
        self.number = 0
        """Number of this process among all of the node; 0 before it was drawn."""

    async def come(self) -> Beginning:
        """Take over as the node. Raises ChannelFenced if a later process has started."""
        if not self.number:
            self.number = await self._draw()
        sizes = await self._storage.sizes(node_prefix(self._node))
        there = {name: size for name, size in sizes.items() if is_object_name(name)}
        first, width = max(map(sequence_of, there), default=-1) + 1, self._concurrent_writes + 1
        while True:
            names = [object_name(self._node, sequence) for sequence in range(first, first + width)]
            holders = await asyncio.gather(*map(self._take, names))
            if set(holders) == {None}:
                raise StorageFailed(f"none of {len(names)} names from {names[0]} on could be taken")
            if await self.is_over():
                raise self.fenced()
            first += width
            if set(holders[-self._concurrent_writes :]) == {Holder.OURS}:
                return Beginning(first, [name for name, size in there.items() if size > HEAD_BYTES])
            # The other process was faster: claim names further ahead.
            width *= 2

    async def _take(self, name: str) -> Holder | None:
        """Claim a name; return its holder, None if unknown.

        Starting over for one of many failures would let the other process escape again and again.
        """
        try:
            return await self.put(name, self.empty(name))
        except StorageFailed:
            return None

    async def is_over(self) -> bool:
        """Return whether a later process has started; call it before any deletion."""
        try:
            await self._storage.get(process_name(self._node, self.number + 1), 0, HEAD_BYTES)
        except ObjectMissing:
            return False
        return True

    def fenced(self) -> ChannelFenced:
        return ChannelFenced(f"a later process runs as node {self._node}")

    def empty(self, name: str) -> bytes:
        """Return an empty object, which stays for ever."""
        return written(self.head(sequence_of(name)), []).data

    async def is_empty(self, name: str) -> bool:
        """Return whether an existing object is empty."""
        return len(await self._storage.end_of(name, HEAD_BYTES + 1)) <= HEAD_BYTES

    def head(self, sequence: int) -> Head:
        return Head(self._node, sequence, self.number << _CHANCE_BITS | self._drawn)

    async def put(self, name: str, data: bytes) -> Holder:
        """Write a new object; return the holder of its name.

        An existing object may be our own, as the storage client retries by itself.
        """
        try:
            await self._storage.put_new(name, data)
        except AlreadyWritten:
            try:
                head = read_head(await self._storage.get(name, 0, HEAD_BYTES))
            except BulkMalformed:
                return Holder.LATER  # not an object of this program
            if head.process != self.head(head.sequence).process:
                # Equal numbers, if someone deleted the objects that register them: the order is unknown. So both
                # stop and draw new numbers.
                number = head.process >> _CHANCE_BITS or head.process  # of an earlier version of this program
                return Holder.EARLIER if number < self.number else Holder.LATER
        return Holder.OURS

    async def _draw(self) -> int:
        """Draw the next number.

        All lower numbers are drawn, so a process only needs to check the number after its own.
        """
        there = await self._storage.sizes(process_prefix(self._node))
        number = max(map(sequence_of, filter(is_object_name, there)), default=0) + 1
        while True:
            name = process_name(self._node, number)
            try:
                await self._storage.put_new(name, written(Head(self._node, number, self._drawn), []).data)
            except AlreadyWritten:
                if read_head(await self._storage.get(name, 0, HEAD_BYTES)).process != self._drawn:
                    number += 1
                    continue
            return number
