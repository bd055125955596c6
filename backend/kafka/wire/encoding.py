"""Kafka's primitive types on the wire, read from and written to buffers.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 (compact types, tagged fields).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
_UUID = struct.Struct("16s")

Buffer = bytes | bytearray | memoryview
Topic = str | bytes
"""A topic's name, or its id of 16 bytes where a version of a message has ids (KIP-516)."""

NO_TAGS = b"\0"
"""Encoding of no tagged fields, at the end of a structure."""

_LONGEST_VARINT = 5
"""Most bytes of a varint of 32 bits."""
_NONE_TAGGED: Mapping[int, Any] = MappingProxyType({})


class MessageMalformed(ValueError):
    """A buffer is not a message of the expected type and version."""


@contextmanager
def reading() -> Iterator[None]:
    """Translate errors of a codec into MessageMalformed.

    Covers a message that ends too early and a string that is not UTF-8.
    """
    try:
        yield
    except (struct.error, IndexError):
        raise MessageMalformed("the message ends within a field") from None
    except UnicodeDecodeError as error:
        raise MessageMalformed(f"a string of the message is not UTF-8: {error}") from None


def unsigned_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return the number at `at` and the position after it. Raises MessageMalformed, IndexError."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    value, shift = first & 0x7F, 7
    for here in range(at + 1, at + _LONGEST_VARINT):
        byte = data[here]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, here + 1
        shift += 7
    raise MessageMalformed(f"the number at byte {at} does not end")


def as_unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string(data: Buffer, at: int, compact: bool) -> tuple[bytes | None, int]:
    """Return the bytes of the string at `at`, None for null, and the position after it.

    Raises MessageMalformed, IndexError.
    """
    length, start = length_of_string(data, at, compact)
    if length < 0:
        return None, start
    if start + length > len(data):
        raise MessageMalformed(f"the string at byte {at} has {length} bytes, beyond the message's end")
    return bytes(data[start : start + length]), start + length


def text(data: Buffer, at: int, compact: bool) -> tuple[str | None, int]:
    """Return the string at `at` decoded, and the position after it.

    Raises UnicodeDecodeError in addition to what `string` raises.
    """
    found, at = string(data, at, compact)
    return None if found is None else found.decode(), at


def topic_at(data: Buffer, at: int, compact: bool, by_id: bool) -> tuple[Topic, int]:
    """Return a topic and the position after it.

    Raises MessageMalformed, IndexError, struct.error, UnicodeDecodeError.
    """
    if by_id:
        return topic_id_at(data, at)
    name, end = text(data, at, compact)
    if name is None:
        raise MessageMalformed(f"the topic at byte {at} has no name")
    return name, end


def topic_id_at(data: Buffer, at: int) -> tuple[bytes, int]:
    """Return a topic id and the position after it. Raises struct.error."""
    (topic_id,) = _UUID.unpack_from(data, at)
    return topic_id, at + _UUID.size


def length_of_string(data: Buffer, at: int, compact: bool) -> tuple[int, int]:
    """Return the length in bytes of the string at `at`, -1 for null, and the position of its first byte."""
    if compact:
        length, start = unsigned_varint(data, at)
        return length - 1, start
    (length,) = _unpacked(INT16, data, at)
    return length, at + INT16.size


def length_of_bytes(data: Buffer, at: int, compact: bool) -> tuple[int, int]:
    """Return the length of bytes, records (in bytes) or an array (in elements), and the position of the first."""
    if compact:
        length, start = unsigned_varint(data, at)
        return length - 1, start
    return int32(data, at), at + INT32.size


def count_of_array(data: Buffer, at: int, compact: bool, least: int) -> tuple[int, int]:
    """Return the number of elements of the array at `at`, 0 for null, and the position of the first.

    `least` is the least size of an element in bytes. Raises MessageMalformed where the message cannot hold so
    many; IndexError.
    """
    count, start = length_of_bytes(data, at, compact)
    if count * least > len(data) - start:
        raise MessageMalformed(f"an array of {count} elements goes beyond the message's end")
    return max(0, count), start


def as_string(value: bytes, compact: bool) -> bytes:
    return (as_unsigned_varint(len(value) + 1) if compact else INT16.pack(len(value))) + value


def as_nullable_string(value: bytes | None, compact: bool) -> bytes:
    if value is None:
        return b"\0" if compact else INT16.pack(-1)
    return as_string(value, compact)


def as_topic(topic: Topic, compact: bool, by_id: bool) -> bytes:
    """Encode a topic name or id.

    Raises ValueError for a name where an id is needed, and the reverse.
    """
    if isinstance(topic, str) == by_id:
        raise ValueError(f"{topic!r}: {'an id' if by_id else 'a name'} is needed here")
    return as_string(topic.encode(), compact) if isinstance(topic, str) else topic


def as_length(length: int, compact: bool) -> bytes:
    """Encode the length prefix of bytes, records and arrays; -1 for null."""
    return as_unsigned_varint(length + 1) if compact else INT32.pack(length)


def int16(data: Buffer, at: int) -> int:
    """Return the integer at `at`. Raises MessageMalformed where the message ends before it."""
    return _unpacked(INT16, data, at)[0]


def int32(data: Buffer, at: int) -> int:
    """Return the integer at `at`. Raises MessageMalformed where the message ends before it."""
    return _unpacked(INT32, data, at)[0]


def past_tagged_fields(data: Buffer, at: int, most: int | None = None) -> int:
    """Return the position after the tagged fields at `at`. Raises MessageMalformed, IndexError.

    `most` limits their number: skipping millions takes long, and no other client is served meanwhile.
    """
    count, at = unsigned_varint(data, at)
    if most is not None and count > most:
        raise MessageMalformed(f"{count} tagged fields at byte {at}; at most {most} are allowed")
    for _ in range(count):
        _, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        at += size
    return at


class Place(NamedTuple):
    """Position of a tagged field's value."""

    start: int
    end: int


def tagged_fields(data: Buffer, at: int, known: frozenset[int]) -> tuple[Mapping[int, Place], int]:
    """Return the known tagged fields at `at`, by tag, and the position after all of them.

    Raises MessageMalformed, IndexError.
    """
    count, at = unsigned_varint(data, at)
    if not count:
        return _NONE_TAGGED, at
    found = {}
    for _ in range(count):
        tag, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        if at + size > len(data):
            raise MessageMalformed(f"the tagged field at byte {at} goes beyond the message's end")
        if tag in known:
            found[tag] = Place(at, at + size)
        at += size
    return found, at


def numbers_within(form: struct.Struct, data: Buffer, place: Place) -> tuple[int, ...]:
    """Return the numbers at the head of a tagged field. Raises MessageMalformed where it is shorter."""
    if place.start + form.size > place.end:
        raise MessageMalformed(f"the tagged field at byte {place.start} is too short")
    return form.unpack_from(data, place.start)


def as_tagged_fields(values: Mapping[int, bytes]) -> bytes:
    """Encode tagged fields, which are to be given in ascending order of tags, as Kafka requires."""
    found = as_unsigned_varint(len(values))
    for tag, value in values.items():
        found += as_unsigned_varint(tag) + as_unsigned_varint(len(value)) + value
    return found


def _unpacked(of: struct.Struct, data: Buffer, at: int) -> tuple[int]:
    try:
        found: tuple[int] = of.unpack_from(data, at)
    except struct.error:
        raise MessageMalformed(f"a number of {of.size} bytes at byte {at} is beyond the message's end") from None
    return found
