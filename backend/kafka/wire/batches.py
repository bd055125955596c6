"""Headers of record batches in Produce requests, Fetch responses and logs.

Records are not parsed, except the first key of a control batch; bytes are not copied. Source: Kafka's "Message
Format", magic 2 (KIP-98). Older formats are refused: the supported versions of Fetch and Produce do not have them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from backend.kafka.wire.encoding import INT32, INT64, Buffer, MessageMalformed, int32, reading

_MAGIC = 2
_MAGIC_AT = 16
_EPOCH_AT = 12
_LEADER_EPOCH_AT = 12
_AHEAD = 12
"""Bytes of the fields base offset and size, which the size does not include."""
_HEADER = struct.Struct(">qiixIhiqqqhii")
"""All header fields but the magic byte."""
_TYPE = struct.Struct(">hh")

_COMPRESSED, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class Batch(NamedTuple):
    """Header of one record batch."""

    at: int
    """Position of the batch's first byte in the buffer in which it was found."""
    size: int
    """Size of the whole batch in bytes."""
    base_offset: int
    leader_epoch: int
    crc: int
    """CRC-32C of everything after this field."""
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Base timestamp in milliseconds; max_timestamp too."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    """Number of records; fewer than offsets where compaction removed some."""

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def has_log_append_time(self) -> bool:
        """Return whether the timestamp is the broker's, which wrote it into the header."""
        return bool(self.attributes & _LOG_APPEND_TIME)


class ControlType(IntEnum):
    """Type of a control batch."""

    OTHER = -1
    ABORT = 0
    COMMIT = 1


def batches(records: Buffer) -> Iterator[Batch]:
    """Yield the headers of whole batches, first to last; a truncated batch at the end of a response is skipped.

    Raises MessageMalformed for another magic, a size below that of a header, or a negative count of offsets or
    records.
    """
    at, end = 0, len(records)
    while at + _AHEAD <= end:
        if at + _MAGIC_AT < end and records[at + _MAGIC_AT] != _MAGIC:
            raise MessageMalformed(
                f"the batch at byte {at} has magic {records[at + _MAGIC_AT]}; {_MAGIC} is known"
            )
        size = _AHEAD + int32(records, at + INT64.size)
        if size < _HEADER.size:
            raise MessageMalformed(f"the batch at byte {at} has {size} bytes, less than a header")
        if at + size > end:
            return
        base_offset, _, *rest = _HEADER.unpack_from(records, at)
        batch = Batch(at, size, base_offset, *rest)
        if batch.last_offset_delta < 0 or batch.record_count < 0:
            raise MessageMalformed(f"the batch at byte {at} ends before it begins")
        yield batch
        at += size


def leader_epoch(batch: Buffer) -> int:
    """Return the epoch of the leader that wrote a batch of the log. Raises MessageMalformed."""
    with reading():
        return int32(batch, _LEADER_EPOCH_AT)


def control_type(batch: Buffer) -> ControlType:
    """Return the type of a control batch, read from the key of its first record.

    Raises MessageMalformed if it is no control batch.
    """
    attributes = next(batches(batch), _NO_BATCH).attributes
    if not attributes & _CONTROL or attributes & _COMPRESSED:
        raise MessageMalformed("this is not a control batch")
    with reading():
        at = _past_varint(batch, _HEADER.size) + 1  # the record's length; its attributes
        for _ in range(3):  # its timestamp, its offset, the key's length
            at = _past_varint(batch, at)
        _, found = _TYPE.unpack_from(batch, at)
    return ControlType(found) if found in (ControlType.ABORT, ControlType.COMMIT) else ControlType.OTHER


_NO_BATCH = Batch(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _past_varint(data: Buffer, at: int) -> int:
    while data[at] > 0x7F:
        at += 1
    return at + 1


def with_offset(batch: Buffer, base_offset: int, leader_epoch: int) -> Sequence[Buffer]:
    """Return one batch with another base offset and leader epoch, which its CRC does not cover, in pieces.

    Raises MessageMalformed if the batch is shorter than a header.
    """
    if len(batch) < _HEADER.size:
        raise MessageMalformed(f"{len(batch)} bytes are too few for a batch")
    view = memoryview(batch)
    return [
        INT64.pack(base_offset),
        view[INT64.size : _EPOCH_AT],
        INT32.pack(leader_epoch),
        view[_MAGIC_AT:],
    ]
