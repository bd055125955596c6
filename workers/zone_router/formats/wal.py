"""Format of a main's confirm WAL: the offsets of its broker's batches, and where their bytes are stored.

An object is a head, a table of partitions, and records in the order of the broker's log. A **link** record gives
the position of a batch in the router channel; a **direct** record is a batch itself, which arrived another way or
was changed by the broker; an **aborted** record is an aborted transaction; a **begun** record gives the offset and
leader epoch from which a partition is followed; a **gone** record invalidates all earlier records of a partition.
Source: the zone router's document, "Link Record": `magic
sourceNodeId
channelOffset
partitionOffset
timestamp`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backend.kafka.wire.encoding import INT64, Buffer
from workers.zone_router.formats.bulk import BulkMalformed, ChannelOffset, Main, decoded

MAGIC = b"TRW\1"
_LINK_MAGIC = 1
_HEAD = struct.Struct(">4sQQI")
_PARTITION = struct.Struct(">16si")
_RECORD = struct.Struct(">bIiiqI")
_LINK = struct.Struct(">BI29sqq")
_ABORTED = struct.Struct(">qqq")
_BEGUN = struct.Struct(">qiq")
_KIND_LINK, _KIND_ABORTED, _KIND_BEGUN, _KIND_GONE, _KIND_DIRECT = -1, -2, -3, -4, 0
"""Record kinds. In the document an epoch of -1 marks a link, and any other epoch the data itself."""


class WalMalformed(ValueError):
    """The bytes are not an object of a confirm WAL."""


class Partition(NamedTuple):
    """Partition of a topic; the topic id distinguishes it from a deleted topic of the same name."""

    topic_id: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Link:
    """Location of a batch that is in the router channel as its producer sent it."""

    partition: Partition
    leader_epoch: int
    last_offset_delta: int
    at: ChannelOffset
    """Position of the batch itself, not of the request or part around it."""
    base_offset: int
    timestamp: int
    """Largest timestamp of the batch, in milliseconds."""
    gap: int = 0
    """Number of offsets before the batch without records, removed by compaction."""

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


@dataclass(frozen=True, slots=True)
class Direct:
    """A batch as in the broker's log."""

    partition: Partition
    base_offset: int
    next_offset: int
    batch: Buffer
    gap: int = 0
    """Number of offsets before the batch without records, removed by compaction."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """An aborted transaction, by the offsets of its first batch and of its marker."""

    partition: Partition
    producer_id: int
    first_offset: int
    last_offset: int


class Begins(NamedTuple):
    """Start of a main's copy of a log, and the epoch of the record before it.

    A main that followed that epoch's leader has the same log up to there.
    """

    epoch_before: int
    offset: int


UNKNOWN_BEGINNING = Begins(-1, -1)


@dataclass(frozen=True, slots=True)
class Begun:
    """Start of following a partition; earlier records from this offset on are no longer in the log."""

    partition: Partition
    leader_epoch: int
    offset: int
    begins: Begins = UNKNOWN_BEGINNING


@dataclass(frozen=True, slots=True)
class Gone:
    """Invalidation of a partition's earlier records: its topic was deleted, or its log was truncated."""

    partition: Partition


WalRecord = Link | Direct | Aborted | Begun | Gone


class WalHead(NamedTuple):
    """Head of an object; `process` distinguishes two processes of the same main."""

    sequence: int
    process: int


HEAD_BYTES = _HEAD.size


def wal_prefix(main: Main) -> str:
    return f"wal/{main[0]}/{main[1]:010d}/"


def wal_name(main: Main, sequence: int) -> str:
    return f"{wal_prefix(main)}{sequence:020d}"


def written(head: WalHead, records: Sequence[WalRecord]) -> bytes:
    """Encode an object of these records."""
    table: dict[Partition, int] = {}
    pieces: list[Buffer] = []
    for record in records:
        at = table.setdefault(record.partition, len(table))
        match record:
            case Link():
                payload: Buffer = _LINK.pack(
                    _LINK_MAGIC, record.at.node, record.at.encoded(), record.base_offset, record.timestamp
                )
                pieces.append(
                    _RECORD.pack(
                        _KIND_LINK, at, record.leader_epoch, record.last_offset_delta, record.gap, len(payload)
                    )
                )
            case Direct():
                payload = record.batch
                delta = record.next_offset - record.base_offset - 1
                pieces.append(_RECORD.pack(_KIND_DIRECT, at, 0, delta, record.gap, len(payload)))
            case Aborted():
                payload = _ABORTED.pack(record.producer_id, record.first_offset, record.last_offset)
                pieces.append(_RECORD.pack(_KIND_ABORTED, at, 0, 0, 0, len(payload)))
            case Begun():
                payload = _BEGUN.pack(record.offset, *record.begins)
                pieces.append(_RECORD.pack(_KIND_BEGUN, at, record.leader_epoch, 0, 0, len(payload)))
            case Gone():
                payload = b""
                pieces.append(_RECORD.pack(_KIND_GONE, at, 0, 0, 0, 0))
        pieces.append(payload)
    partitions = [_PARTITION.pack(*partition) for partition in table]
    return b"".join([_HEAD.pack(MAGIC, *head, len(table)), *partitions, *pieces])


def read_head(data: Buffer) -> WalHead:
    """Decode the head. Raises WalMalformed."""
    if len(data) < _HEAD.size:
        raise WalMalformed(f"{len(data)} bytes are too few for an object of a confirm WAL")
    magic, sequence, process, _ = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise WalMalformed(f"not an object of a confirm WAL: it begins with {magic!r}")
    return WalHead(sequence, process)


def read(data: memoryview) -> Iterator[tuple[WalRecord, int]]:
    """Yield the records in order, each with the position of its payload. Raises WalMalformed."""
    read_head(data)
    try:
        yield from _records(data)
    except (struct.error, BulkMalformed, IndexError) as error:
        raise WalMalformed(f"an object of a confirm WAL is truncated or has an invalid record: {error}") from None


def _records(data: memoryview) -> Iterator[tuple[WalRecord, int]]:
    *_, count = _HEAD.unpack_from(data)
    at = _HEAD.size
    if count > len(data) // _PARTITION.size:
        raise WalMalformed(f"{count} partitions do not fit into {len(data)} bytes")
    table = [Partition(*_PARTITION.unpack_from(data, at + n * _PARTITION.size)) for n in range(count)]
    at += count * _PARTITION.size
    while at < len(data):
        kind, partition, epoch, delta, gap, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if at + size > len(data) or partition >= count:
            raise WalMalformed(f"a record of {size} bytes at byte {at} goes beyond the end, or has no partition")
        yield _record(data, at, size, kind, table[partition], epoch, delta, gap), at
        at += size


def _record(
    data: memoryview, at: int, size: int, kind: int, partition: Partition, epoch: int, delta: int, gap: int
) -> WalRecord:
    if kind == _KIND_LINK:
        magic, _, offset, base_offset, timestamp = _LINK.unpack_from(data, at)
        if magic != _LINK_MAGIC:
            raise WalMalformed(f"a link has version {magic}; only {_LINK_MAGIC} is supported")
        return Link(partition, epoch, delta, decoded(offset), base_offset, timestamp, gap)
    if kind == _KIND_ABORTED:
        return Aborted(partition, *_ABORTED.unpack_from(data, at))
    if kind == _KIND_BEGUN:
        offset, *begins = _BEGUN.unpack_from(data, at)
        return Begun(partition, epoch, offset, Begins(*begins))
    if kind == _KIND_GONE:
        return Gone(partition)
    if kind == _KIND_DIRECT:
        (base_offset,) = INT64.unpack_from(data, at)
        return Direct(partition, base_offset, base_offset + delta + 1, data[at : at + size], gap)
    raise WalMalformed(f"unknown record kind {kind}")
