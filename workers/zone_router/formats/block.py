"""Format of block objects: batches of many partitions as in the broker's log, followed by an index.

Data that a main commits is stored here; from then on neither the router channel nor the confirm WAL is needed for
it. A partition's batches are adjacent, in segments of about a megabyte, so that a reader of one partition reads
little else. A main's last block also holds its follow state. Source: the zone router's document, "RouterChannel
Cleanup"; AutoMQ's stream set objects.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backend.kafka.wire.encoding import Buffer
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.wal import UNKNOWN_BEGINNING, Aborted, Begins, Partition

MAGIC = b"TRB\1"
_HEAD = struct.Struct(">4sQ")
_TRAILER = struct.Struct(">QI4s")
SEGMENT_BYTES = 1024 * 1024
"""Size in bytes at which a segment ends, with the batch that reaches it."""
HEAD_BYTES = _HEAD.size
"""Bytes of the head, by which a process recognizes its own objects."""
TRAILER_BYTES = _TRAILER.size
TAIL_BYTES = 64 * 1024
"""Bytes to read from an object's end, which usually include the whole index."""


class BlockMalformed(ValueError):
    """The bytes are not a block object."""


class Segment(NamedTuple):
    """Adjacent batches: all that a partition has from `base_offset` to before `next_offset`."""

    base_offset: int
    next_offset: int
    start: int
    size: int


class Followed(NamedTuple):
    """Follow state of a partition: leader epoch, position, start, and open transactions.

    `open` maps the producers of open transactions to the offset of the first batch of each.
    """

    leader_epoch: int
    position: int
    open: Mapping[int, int]
    begins: Begins = UNKNOWN_BEGINNING
    last_epoch: int = -1
    """Epoch of the last batch before the position; -1 if that was not followed."""

    @property
    def decided(self) -> int:
        """Return the offset before which the outcome of all transactions is known."""
        return min([self.position, *self.open.values()])


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Index of a block: segments in order, and transactions that were aborted within it."""

    segments: Mapping[Partition, Sequence[Segment]]
    aborted: Sequence[Aborted]
    followed: Mapping[Partition, Followed]
    """Follow state of all partitions of the main, even if the block has none of their batches."""
    cuts: Mapping[Partition, int]
    """Offsets at which following restarted since the previous block. Older blocks' batches and aborted
    transactions from there on are no longer in the log."""
    wal_end: int
    """Sequence of the WAL up to which all is in this block or an earlier one (exclusive)."""


def block_prefix(main: Main) -> str:
    return f"blk/{main[0]}/{main[1]:010d}/"


def block_name(main: Main, sequence: int) -> str:
    return f"{block_prefix(main)}{sequence:020d}"


def written(
    batches: Mapping[Partition, Sequence[tuple[int, int, Buffer]]],
    aborted: Sequence[Aborted],
    followed: Mapping[Partition, Followed],
    cuts: Mapping[Partition, int],
    wal_end: int,
    process: int,
) -> bytes:
    """Encode a block; batches are (base offset, next offset, bytes), in order."""
    pieces: list[Buffer] = [_HEAD.pack(MAGIC, process)]
    at, segments = _HEAD.size, dict[Partition, list[Segment]]()
    for partition, those in batches.items():
        mine = segments[partition] = []
        for base, following, batch in those:
            if mine and mine[-1].size < SEGMENT_BYTES and mine[-1].next_offset == base:
                last = mine[-1]
                mine[-1] = Segment(last.base_offset, following, last.start, last.size + len(batch))
            else:
                mine.append(Segment(base, following, at, len(batch)))
            pieces.append(batch)
            at += len(batch)
    index = zlib.compress(json.dumps(_document(segments, aborted, followed, cuts, wal_end)).encode(), 1)
    return b"".join([*pieces, index, _TRAILER.pack(at, len(index), MAGIC)])


def index_place(tail: Buffer) -> tuple[int, int]:
    """Return the position and size of the index, read from an object's end. Raises BlockMalformed."""
    if len(tail) < _TRAILER.size:
        raise BlockMalformed(f"{len(tail)} bytes are too few for the end of a block")
    start, size, magic = _TRAILER.unpack_from(tail, len(tail) - _TRAILER.size)
    if magic != MAGIC:
        raise BlockMalformed(f"not a block: it ends with {magic!r}")
    return start, size


def read_index(data: Buffer) -> BlockIndex:
    """Decode an index. Raises BlockMalformed."""
    try:
        read = json.loads(zlib.decompress(data))
        partitions = [Partition(bytes.fromhex(topic), index) for topic, index in read["partitions"]]
        return BlockIndex(
            segments={partitions[at]: [Segment(*each) for each in those] for at, those in read["segments"]},
            aborted=[Aborted(partitions[at], *rest) for at, *rest in read["aborted"]],
            followed={
                partitions[at]: Followed(
                    epoch, position, {int(k): v for k, v in still_open}, Begins(*begins), last_epoch
                )
                for at, epoch, position, still_open, begins, last_epoch in read["followed"]
            },
            cuts={partitions[at]: int(offset) for at, offset in read["cuts"]},
            wal_end=int(read["wal_end"]),
        )
    except (zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise BlockMalformed(f"the index of a block cannot be read: {error!r}") from None


def _document(
    segments: Mapping[Partition, Sequence[Segment]],
    aborted: Sequence[Aborted],
    followed: Mapping[Partition, Followed],
    cuts: Mapping[Partition, int],
    wal_end: int,
) -> dict[str, Any]:
    table: dict[Partition, int] = {}

    def number(partition: Partition) -> int:
        return table.setdefault(partition, len(table))

    document: dict[str, Any] = {
        "segments": [[number(partition), those] for partition, those in segments.items()],
        "aborted": [
            [number(each.partition), each.producer_id, each.first_offset, each.last_offset] for each in aborted
        ],
        "followed": [
            [
                number(partition),
                each.leader_epoch,
                each.position,
                list(each.open.items()),
                each.begins,
                each.last_epoch,
            ]
            for partition, each in followed.items()
        ],
        "cuts": [[number(partition), offset] for partition, offset in cuts.items()],
        "wal_end": wal_end,
    }
    document["partitions"] = [[partition.topic_id.hex(), partition.number] for partition in table]
    return document
