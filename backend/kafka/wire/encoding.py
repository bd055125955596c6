"""Kafka's primitive types on the wire, read from and written to bytes where they stand.

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
"""The end of a structure without tagged fields."""

_LONGEST_VARINT = 5
"""Bytes of a varint of 32 bits."""
_NONE_TAGGED: Mapping[int, Any] = MappingProxyType({})


class MessageMalformed(ValueError):
    """Bytes that are no message of the type and version that they are said to be."""


@contextmanager
def reading() -> Iterator[None]:
    """Around a codec: what is raised within for a message that ends too early, or a name that is no text, becomes
    MessageMalformed."""
    try:
        yield
    except (struct.error, IndexError):
        raise MessageMalformed("the message ends within a field") from None
    except UnicodeDecodeError as error:
        raise MessageMalformed(f"a text of the message is none: {error}") from None


def unsigned_varint(data: Buffer, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends. Raises MessageMalformed, IndexError."""
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
    """The bytes of the string at `at`, None for null, and where it ends. Raises MessageMalformed, IndexError."""
    length, start = length_of_string(data, at, compact)
    if length < 0:
        return None, start
    if start + length > len(data):
        raise MessageMalformed(f"the string at byte {at} has {length} bytes, beyond the message's end")
    return bytes(data[start : start + length]), start + length


def text(data: Buffer, at: int, compact: bool) -> tuple[str | None, int]:
    """As `string`, decoded. Raises UnicodeDecodeError too."""
    found, at = string(data, at, compact)
    return None if found is None else found.decode(), at


def topic_at(data: Buffer, at: int, compact: bool, by_id: bool) -> tuple[Topic, int]:
    """A topic, and where it ends. Raises MessageMalformed, IndexError, struct.error, UnicodeDecodeError."""
    if by_id:
        return topic_id_at(data, at)
    name, end = text(data, at, compact)
    if name is None:
        raise MessageMalformed(f"the topic at byte {at} has no name")
    return name, end


def topic_id_at(data: Buffer, at: int) -> tuple[bytes, int]:
    """A topic's id, and where it ends. Raises struct.error."""
    (topic_id,) = _UUID.unpack_from(data, at)
    return topic_id, at + _UUID.size


def length_of_string(data: Buffer, at: int, compact: bool) -> tuple[int, int]:
    """How many bytes the string at `at` has, -1 for null, and where they begin."""
    if compact:
        length, start = unsigned_varint(data, at)
        return length - 1, start
    (length,) = _unpacked(INT16, data, at)
    return length, at + INT16.size


def length_of_bytes(data: Buffer, at: int, compact: bool) -> tuple[int, int]:
    """As of strings, for bytes, records and arrays: of these, how many elements."""
    if compact:
        length, start = unsigned_varint(data, at)
        return length - 1, start
    return int32(data, at), at + INT32.size


def count_of_array(data: Buffer, at: int, compact: bool, least: int) -> tuple[int, int]:
    """How many elements the array at `at` has, none for null, and where they begin.

    Raises MessageMalformed where the message cannot hold so many, of at least `least` bytes each; IndexError.
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
    """Raises ValueError if it is a name where an id is needed, or the other way round."""
    if isinstance(topic, str) == by_id:
        raise ValueError(f"{topic!r}: {'an id' if by_id else 'a name'} is needed here")
    return as_string(topic.encode(), compact) if isinstance(topic, str) else topic


def as_length(length: int, compact: bool) -> bytes:
    """What stands before bytes, records and arrays; -1 for null."""
    return as_unsigned_varint(length + 1) if compact else INT32.pack(length)


def int16(data: Buffer, at: int) -> int:
    """Raises MessageMalformed where the message ends before it."""
    return _unpacked(INT16, data, at)[0]


def int32(data: Buffer, at: int) -> int:
    """Raises MessageMalformed where the message ends before it."""
    return _unpacked(INT32, data, at)[0]


def past_tagged_fields(data: Buffer, at: int, most: int | None = None) -> int:
    """Where the tagged fields at `at` end, whatever they are. Raises MessageMalformed, IndexError.

    With `most`, more of them are refused: to go over millions takes long, and nobody else is served meanwhile.
    """
    count, at = unsigned_varint(data, at)
    if most is not None and count > most:
        raise MessageMalformed(f"{count} tagged fields at byte {at}; {most} are the most")
    for _ in range(count):
        _, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        at += size
    return at


class Place(NamedTuple):
    """Where the value of a tagged field stands."""

    start: int
    end: int


def tagged_fields(data: Buffer, at: int, known: frozenset[int]) -> tuple[Mapping[int, Place], int]:
    """The tagged fields at `at` that are known, by tag, and where all of them end.

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
    """At the head of a tagged field. Raises MessageMalformed where it is shorter."""
    if place.start + form.size > place.end:
        raise MessageMalformed(f"the tagged field at byte {place.start} is too short")
    return form.unpack_from(data, place.start)


def as_tagged_fields(values: Mapping[int, bytes]) -> bytes:
    """By tag, lowest first, as Kafka has them."""
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
