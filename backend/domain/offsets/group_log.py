"""Parser of the records in `__consumer_offsets` that hold committed offsets.

The topic holds records of many types; the first two bytes of a key are the type. Offsets have two: that of old
brokers (key version 0) and today's (key version 1, with value versions 0 to 4, of which version 4 has tagged
fields). All other types are the coordinator's own state; they are listed here so that a type of a newer broker can
be told from garbage. Source: Kafka 4.1, `group-coordinator/src/main/resources/common/message`; KIP-915 on tagged
fields.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

INTERNAL_TOPIC = "__consumer_offsets"

OFFSET_KEYS = (0, 1)
OTHER_KEYS = {
    2: "group metadata", 3: "consumer group metadata", 4: "consumer group partitions",
    5: "consumer group member", 6: "consumer group target", 7: "consumer group member's target",
    8: "consumer group member's assignment", 10: "share group member", 11: "share group metadata",
    12: "share group target", 13: "share group member's target", 14: "share group member's assignment",
    15: "share group partitions", 16: "consumer group regular expression", 17: "streams group metadata",
    19: "streams group member", 20: "streams group target", 21: "streams group member's target",
    22: "streams group member's assignment", 23: "streams group topology",
}  # fmt: skip
NEWEST_OFFSET_VALUE = 4
_FIRST_FLEXIBLE_VALUE = 4
_TOPIC_ID_TAG = 0
_TOPIC_ID_BYTES = 16


class Unreadable(ValueError):
    """The bytes are no record of `__consumer_offsets`, or of a type or version that no known broker writes."""


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Group and partition of a committed offset."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset. `committed_at_ms` is the broker's clock; a leader epoch of -1 means none."""

    offset: int
    metadata: str
    committed_at_ms: int
    leader_epoch: int = -1
    topic_id: bytes | None = None


def offset_key(key: bytes | None) -> OffsetKey | None:
    """Parse the key of a committed offset; None for a record of another known type. Raises Unreadable."""
    reader = _Reader(key, "key")
    version = reader.int16()
    if version in OTHER_KEYS:
        return None
    if version not in OFFSET_KEYS:
        raise Unreadable(f"key of type {version}: written by a broker newer than this reader, or no key at all")
    found = OffsetKey(reader.string(), reader.string(), reader.int32())
    reader.end()
    return found


def offset_value(value: bytes | None) -> OffsetValue | None:
    """Parse the value; None for a tombstone: the offset expired or was deleted. Raises Unreadable."""
    if value is None:
        return None
    reader = _Reader(value, "value")
    version = reader.int16()
    if not 0 <= version <= NEWEST_OFFSET_VALUE:
        raise Unreadable(f"value of version {version}; known are 0 to {NEWEST_OFFSET_VALUE}")
    flexible = version >= _FIRST_FLEXIBLE_VALUE
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if flexible else reader.string()
    committed_at_ms = reader.int64()
    if version == 1:
        reader.int64()  # the expiry time; brokers since 2.1 ignore it
    topic_id = reader.tags().get(_TOPIC_ID_TAG) if flexible else None
    if topic_id is not None and len(topic_id) != _TOPIC_ID_BYTES:
        raise Unreadable(f"a topic id of {len(topic_id)} bytes, not {_TOPIC_ID_BYTES}")
    reader.end()
    return OffsetValue(offset, metadata, committed_at_ms, leader_epoch, topic_id)


def offset_record(key: bytes | None, value: bytes | None) -> tuple[OffsetKey, OffsetValue | None] | None:
    """Parse a committed offset or its tombstone; None for a record of another known type.

    Raises Unreadable.
    """
    whose = offset_key(key)
    return None if whose is None else (whose, offset_value(value))


class _Reader:
    """Reader of Kafka's primitive types, in order; each read is checked against the bytes that remain."""

    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise Unreadable(f"no {what}")
        self._data, self._at, self._what = data, 0, what

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def int64(self) -> int:
        return int(struct.unpack(">q", self._take(8))[0])

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise Unreadable(f"{self._what}: a string of length {length}")
        return self._text(length)

    def compact_string(self) -> str:
        length = self._varint() - 1
        if length < 0:
            raise Unreadable(f"{self._what}: no string where one must be")
        return self._text(length)

    def tags(self) -> dict[int, bytes]:
        """Read the tagged fields, including unknown ones: a newer broker may add some (KIP-915)."""
        return {self._varint(): self._take(self._varint()) for _ in range(self._varint())}

    def end(self) -> None:
        left = len(self._data) - self._at
        if left:
            raise Unreadable(f"{self._what}: {left} bytes too many")

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise Unreadable(f"{self._what}: a string that is not UTF-8") from error

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise Unreadable(f"{self._what}: ends after {len(self._data)} bytes, {end} are needed")
        taken, self._at = self._data[self._at : end], end
        return taken

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
        raise Unreadable(f"{self._what}: a length of more than five bytes")
