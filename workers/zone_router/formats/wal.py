"""Objects of a main's confirm WAL: which batches its broker has, at which offsets, and where their bytes are.

An object is a head, a table of the partitions that it tells of, and records in the order of the broker's log. A
**link** record says where in the router channel a batch stands; a **direct** record is a batch itself, which came
by another way, or which the broker has changed; an **aborted** record is a transaction that has ended so; a
**begun** record says from where on a partition is followed, in which epoch of its leader; a **gone** record that
nothing that was told of it is of use any more. Source: the zone router's document, "Link Record":
`magic | sourceNodeId | channelOffset | partitionOffset | timestamp`.
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
"""An epoch of -1 tells a link in the document, and any other one what is there itself."""


class WalMalformed(ValueError):
    """Bytes that are no object of a confirm WAL."""


class Partition(NamedTuple):
    """A partition of one topic: ids tell a topic from one of the same name that was deleted."""

    topic_id: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Link:
    """A batch that stands in the router channel as its producer sent it."""

    partition: Partition
    leader_epoch: int
    last_offset_delta: int
    at: ChannelOffset
    """Of the batch, not of the request or the part around it."""
    base_offset: int
    timestamp: int
    """The batch's largest, in ms."""
    gap: int = 0
    """Offsets before it that have no record any more: compaction has taken them away."""

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


@dataclass(frozen=True, slots=True)
class Direct:
    """A batch as it is in the broker's log."""

    partition: Partition
    base_offset: int
    next_offset: int
    batch: Buffer
    gap: int = 0
    """As a link's."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted, by the offsets of its first batch and of its marker."""

    partition: Partition
    producer_id: int
    first_offset: int
    last_offset: int


class Begins(NamedTuple):
    """Where what a main has followed of a log begins, and the epoch of the record before that: who has followed
    that epoch's leader has the log up to there, too.
    """

    epoch_before: int
    offset: int


UNKNOWN_BEGINNING = Begins(-1, -1)


@dataclass(frozen=True, slots=True)
class Begun:
    """From here on the partition is followed; what was told of it from here on is not in the log any more."""

    partition: Partition
    leader_epoch: int
    offset: int
    begins: Begins = UNKNOWN_BEGINNING


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing that was told of the partition is of use: its topic was deleted, or its log was cut."""

    partition: Partition


WalRecord = Link | Direct | Aborted | Begun | Gone


class WalHead(NamedTuple):
    """Of an object; `process` tells two processes apart that call themselves the same main."""

    sequence: int
    process: int


HEAD_BYTES = _HEAD.size


def wal_prefix(main: Main) -> str:
    return f"wal/{main[0]}/{main[1]:010d}/"


def wal_name(main: Main, sequence: int) -> str:
    return f"{wal_prefix(main)}{sequence:020d}"


def written(head: WalHead, records: Sequence[WalRecord]) -> bytes:
    """An object of these records."""
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
    """Raises WalMalformed."""
    if len(data) < _HEAD.size:
        raise WalMalformed(f"{len(data)} bytes are no object of a confirm WAL")
    magic, sequence, process, _ = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise WalMalformed(f"no object of a confirm WAL: it begins with {magic!r}")
    return WalHead(sequence, process)


def read(data: memoryview) -> Iterator[tuple[WalRecord, int]]:
    """Its records in order, each with the byte at which its payload begins. Raises WalMalformed."""
    read_head(data)
    try:
        yield from _records(data)
    except (struct.error, BulkMalformed, IndexError) as error:
        raise WalMalformed(
            f"an object of a confirm WAL ends within a record, or has a wrong one: {error}"
        ) from None


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
            raise WalMalformed(f"a link of version {magic}; {_LINK_MAGIC} is known")
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
    raise WalMalformed(f"a record of kind {kind} is not known")
