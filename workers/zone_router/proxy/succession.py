"""Which of the processes that call themselves the same node may write to its channel: the one that came last.

Every process draws a number, the next of the node's; nobody deletes the objects that say which were drawn. Then it
lists the node's bulks and takes names behind the newest with empty objects, until as many in a row are its own as
bulks are written side by side. Names are written once, and nobody deletes an empty object: the process that was
there before finds one of them taken, and ends. So that it cannot have been past those names, and have deleted what
it wrote there, every process looks whether a later number was drawn before it deletes anything. Why this is enough
is in decision 45.
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
"""Of a process's number in a bulk's head, behind the number itself."""


class ChannelFenced(Exception):
    """Another process writes under this node's name."""


class Holder(enum.Enum):
    """Whose object has a name."""

    OURS = enum.auto()
    EARLIER = enum.auto()
    """Of a process that came before this one. It did not get so far as to write, or is about to end."""
    LATER = enum.auto()


class Beginning(NamedTuple):
    """Where a process goes on."""

    sequence: int
    """Of its first bulk."""
    left: list[str]
    """Bulks of processes before it. Whoever was told of these asked another process, and is gone with it."""


class Succession:
    """One process's part in it. All methods raise StorageFailed."""

    def __init__(self, storage: ObjectStorage, node: int, side_by_side: int) -> None:
        self._storage, self._node, self._side_by_side = storage, node, side_by_side
        self._drawn = secrets.randbits(_CHANCE_BITS)
        self.number = 0
        """Of this process, among all that were this node; 0 before it has come."""

    async def come(self) -> Beginning:
        """Take the node's place. Raises ChannelFenced if another process has come meanwhile."""
        if not self.number:
            self.number = await self._draw()
        sizes = await self._storage.sizes(node_prefix(self._node))
        there = {name: size for name, size in sizes.items() if is_object_name(name)}
        first, width = max(map(sequence_of, there), default=-1) + 1, self._side_by_side + 1
        while True:
            names = [object_name(self._node, sequence) for sequence in range(first, first + width)]
            holders = await asyncio.gather(*map(self._take, names))
            if set(holders) == {None}:
                raise StorageFailed(f"none of {len(names)} names from {names[0]} on could be taken")
            if await self.is_over():
                raise self.fenced()
            first += width
            if set(holders[-self._side_by_side :]) == {Holder.OURS}:
                return Beginning(first, [name for name, size in there.items() if size > HEAD_BYTES])
            # The other one was quicker: farther ahead of it.
            width *= 2

    async def _take(self, name: str) -> Holder | None:
        """None if nobody knows: to begin anew for one of many would let the other one get away again and again."""
        try:
            return await self.put(name, self.empty(name))
        except StorageFailed:
            return None

    async def is_over(self) -> bool:
        """Whether another process has come since. To be asked before anything is deleted."""
        try:
            await self._storage.get(process_name(self._node, self.number + 1), 0, HEAD_BYTES)
        except ObjectMissing:
            return False
        return True

    def fenced(self) -> ChannelFenced:
        return ChannelFenced(f"another process writes as node {self._node}, and came later")

    def empty(self, name: str) -> bytes:
        """An object that has nothing and stays for ever."""
        return written(self.head(sequence_of(name)), []).data

    async def is_empty(self, name: str) -> bool:
        """Of an object that is there."""
        return len(await self._storage.end_of(name, HEAD_BYTES + 1)) <= HEAD_BYTES

    def head(self, sequence: int) -> Head:
        return Head(self._node, sequence, self.number << _CHANCE_BITS | self._drawn)

    async def put(self, name: str, data: bytes) -> Holder:
        """Write an object that is not there yet; whose it is that is there now.

        One that was there may be our own: storage tries again by itself, and tells of its second attempt.
        """
        try:
            await self._storage.put_new(name, data)
        except AlreadyWritten:
            try:
                head = read_head(await self._storage.get(name, 0, HEAD_BYTES))
            except BulkMalformed:
                return Holder.LATER  # who writes such a thing is none of us
            if head.process != self.head(head.sequence).process:
                # With our own number, where somebody has deleted the objects that say which were drawn: nobody can
                # tell who came later. So both end, and draw new ones.
                number = head.process >> _CHANCE_BITS or head.process  # of a program before this one
                return Holder.EARLIER if number < self.number else Holder.LATER
        return Holder.OURS

    async def _draw(self) -> int:
        """The next number. Those before it are all drawn: so who has one need only look at the one behind it."""
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
