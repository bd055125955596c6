"""Read the index at the end of a block object."""

from __future__ import annotations

import asyncio

from workers.zone_router.formats import block
from workers.zone_router.formats.block import BlockIndex
from workers.zone_router.object_storage import ObjectStorage


async def read_block_index(storage: ObjectStorage, name: str) -> BlockIndex:
    """Return the index of a block object. Raises BlockMalformed, ObjectMissing, StorageFailed."""
    tail = await storage.end_of(name, block.TAIL_BYTES)
    start, size = block.index_place(tail)
    inside = size + block.TRAILER_BYTES
    if inside <= len(tail):
        data = tail[len(tail) - inside : len(tail) - block.TRAILER_BYTES]
    else:
        data = await storage.get(name, start, size)
    return await asyncio.to_thread(block.read_index, data)
