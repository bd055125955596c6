"""Kafka's primitive types on the wire, read from and written to bytes where they stand.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 (compact types, tagged fields).
"""

from __future__ import annotations

import struct

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")

Buffer = bytes | bytearray | memoryview

_LONGEST_VARINT = 5
"""Bytes of a varint of 32 bits."""


class MessageMalformed(ValueError):
    """Bytes that are no message of the type and version that they are said to be."""


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


def as_string(value: bytes, compact: bool) -> bytes:
    return (as_unsigned_varint(len(value) + 1) if compact else INT16.pack(len(value))) + value


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


def _unpacked(of: struct.Struct, data: Buffer, at: int) -> tuple[int]:
    try:
        found: tuple[int] = of.unpack_from(data, at)
    except struct.error:
        raise MessageMalformed(f"a number of {of.size} bytes at byte {at} is beyond the message's end") from None
    return found
