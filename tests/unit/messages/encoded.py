"""Bytes as producers write them, also wrong ones: numbers, wire-format prefixes, Protobuf fields."""

from __future__ import annotations

from collections.abc import Sequence


def varint(number: int) -> bytes:
    """Encode a number of up to 64 bits without a sign, 7 bits a byte."""
    made = b""
    while number > 0x7F:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def zigzag(number: int) -> bytes:
    """Encode a number with a sign, as Avro does for each, and Protobuf for `sint64`."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def with_id(schema_id: int, data: bytes) -> bytes:
    """Put the id of a schema before a value, as serializers do."""
    return b"\0" + schema_id.to_bytes(4, "big") + data


def with_indexes(schema_id: int, data: bytes, indexes: Sequence[int] = (0,)) -> bytes:
    """Put the id of a schema and the indexes of a message type before a Protobuf message."""
    said = zigzag(len(indexes)) + b"".join(map(zigzag, indexes))
    return with_id(schema_id, (b"\0" if tuple(indexes) == (0,) else said) + data)


def field(number: int, data: bytes) -> bytes:
    """Encode a Protobuf field of bytes, text or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """Encode a Protobuf field of a number."""
    return varint(number << 3) + varint(value)
