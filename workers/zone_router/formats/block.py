"""Block objects: batches as they are in a broker's log, of many partitions, with an index behind them.

What a main commits goes here: from then on neither the router channel nor the confirm WAL is needed for it. A
partition's batches stand together, cut into segments of about a megabyte, so that a reader of one partition reads
no more than that. The last block of a main also tells where its following stands. Source: the zone router's
document, "RouterChannel Cleanup"; AutoMQ's stream set objects.
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
"""A segment ends with the batch that brings it to so many."""
HEAD_BYTES = _HEAD.size
"""By which a process knows its own."""
TRAILER_BYTES = _TRAILER.size
TAIL_BYTES = 64 * 1024
"""Of an object's end: usually its whole index."""


class BlockMalformed(ValueError):
    """Bytes that are no block object."""


class Segment(NamedTuple):
    """Batches that stand together: all that a partition has from `base_offset` to before `next_offset`."""

    base_offset: int
    next_offset: int
    start: int
    size: int


class Followed(NamedTuple):
    """Where the following of a partition stands: in which epoch, up to which offset, and the producers whose
    transactions are open, with the offset of the first batch of each; and where it began.
    """

    leader_epoch: int
    position: int
    open: Mapping[int, int]
    begins: Begins = UNKNOWN_BEGINNING
    last_epoch: int = -1
    """Of the last batch before the position, if it was followed."""

    @property
    def decided(self) -> int:
        """Before this offset it is known of all transactions how they ended."""
        return min([self.position, *self.open.values()])


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """What a block has: segments in order, and transactions that ended in it aborted."""

    segments: Mapping[Partition, Sequence[Segment]]
    aborted: Sequence[Aborted]
    followed: Mapping[Partition, Followed]
    """Of all partitions that the main follows, also of those that have nothing in it."""
    cuts: Mapping[Partition, int]
    """Where following began anew since the block before: what older blocks have from there on, and what they tell
    of transactions that ended there, is not in the log any more."""
    wal_end: int
    """All before this sequence of the WAL is in this block, or in one before it."""


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
    """An object of these batches: (base offset, next offset, its bytes), in order."""
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
    """The first byte and the size of the index, by an object's end. Raises BlockMalformed."""
    if len(tail) < _TRAILER.size:
        raise BlockMalformed(f"{len(tail)} bytes are no end of a block")
    start, size, magic = _TRAILER.unpack_from(tail, len(tail) - _TRAILER.size)
    if magic != MAGIC:
        raise BlockMalformed(f"no block: it ends with {magic!r}")
    return start, size


def read_index(data: Buffer) -> BlockIndex:
    """Raises BlockMalformed."""
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
