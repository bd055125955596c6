"""Protobuf's wire format, decoded by a schema into what JSON can hold.

The JSON is ProtoJSON, except that 64-bit integers are numbers, so that filters can compare them, and that what
`Any` holds stays bytes. Fields without presence are shown with their defaults. Limits: `bounds`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from backend.messages.decoding.bounds import (
    MOST_LEVELS,
    MOST_PARTS,
    Undecodable,
    ends_early,
    has_more_levels,
    too_many_levels,
    too_many_parts,
)
from backend.messages.decoding.protobuf_json import shown
from backend.messages.decoding.protobuf_plans import Field, Plan, Plans

_KIND = FieldDescriptor
_VARINT, _8_BYTES, _LENGTH, _GROUP, _END_OF_GROUP, _4_BYTES = range(6)
_MOST_VARINT_BYTES = 10
_MOST_NAMED = 5
_64_BITS = 2**64 - 1

Raw = dict[int, Any]
"""A message: number -> value; a list for repeated fields, Raw for messages, pairs of Raw for maps."""


class ProtobufDecoder:
    """Decodes messages of one schema."""

    def __init__(self, file: FileDescriptor) -> None:
        self._file, self._plans = file, Plans()

    def decode(self, data: bytes, at: int) -> tuple[Any, str | None]:
        """Decode the message that takes the bytes from `at` to the end, and begins with its type's indexes.

        The text is a note for people: on fields that the schema does not have. Raises Undecodable.
        """
        source = _Source(data, at)
        plan = self._plans.plan(_message_type(self._file, source.indexes()))
        raw: Raw = {}
        source.message(plan, len(data), raw)
        value = shown(plan, raw, source.more)
        # A list of messages takes two levels of JSON for one of the message's.
        if source.deepest * 2 > MOST_LEVELS and has_more_levels(value, MOST_LEVELS):
            raise too_many_levels()
        return value, source.note()


def _message_type(file: FileDescriptor, indexes: list[int]) -> Descriptor:
    """Return the message type at these indexes, as Confluent's serializers write them."""
    types: list[Descriptor] = list(file.message_types_by_name.values())
    found = None
    for index in indexes:
        # Java's serializer, the reference, does not count the types that maps generate. Python's counts them.
        declared = [each for each in types if not each.GetOptions().map_entry]
        candidates = declared if index < len(declared) else types
        if not 0 <= index < len(candidates):
            raise Undecodable(f"has the type {indexes} by index, which its schema does not have")
        found = candidates[index]
        types = list(found.nested_types)
    assert found is not None
    return found


class _Source:
    """Bytes of one record, how far they are read, and what is left of the limits."""

    __slots__ = ("at", "data", "deepest", "levels", "parts", "unknown")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.levels = self.deepest = 0
        self.parts = MOST_PARTS
        self.unknown: dict[tuple[str, int], None] = {}

    def more(self, parts: int) -> None:
        """Count values. Raises Undecodable if there are too many."""
        self.parts -= parts
        if self.parts < 0:
            raise too_many_parts()

    def note(self) -> str | None:
        """Return a sentence on the fields that are not in the schema."""
        if not self.unknown:
            return None
        named = [f"{number} of {name}" for name, number in list(self.unknown)[:_MOST_NAMED]]
        more = f" and {len(self.unknown) - _MOST_NAMED} more" if len(self.unknown) > _MOST_NAMED else ""
        return f"Fields that its schema does not have are left out: {', '.join(named)}{more}."

    def indexes(self) -> list[int]:
        """Read the indexes of a message's type: how many, and each, as numbers with a sign."""
        count = _zigzag(self.varint(len(self.data)))
        if not 0 <= count <= MOST_LEVELS:
            raise Undecodable("does not begin with the indexes of a message type")
        return [_zigzag(self.varint(len(self.data))) for _ in range(count)] or [0]

    def varint(self, end: int) -> int:
        """Read a number of up to 64 bits without a sign."""
        data, at = self.data, self.at
        number = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return number & _64_BITS
            shift += 7
            if at - self.at >= _MOST_VARINT_BYTES:
                raise Undecodable("has a number of more than 10 bytes")
        raise ends_early()

    def length(self, end: int) -> int:
        """Read a length, and return where what it is of ends."""
        length = self.varint(end)
        if length > end - self.at:
            raise ends_early()
        return self.at + length

    def take(self, length: int, end: int) -> bytes:
        """Read bytes."""
        at = self.at
        if length > end - at:
            raise ends_early()
        self.at = at + length
        return self.data[at : at + length]

    def message(self, plan: Plan, end: int, into: Raw, group: int = 0) -> None:
        """Read fields to the end, or to the end of a group, into a message that may have some already."""
        self.levels += 1
        self.deepest = max(self.deepest, self.levels)
        if self.levels > MOST_LEVELS:
            raise too_many_levels()
        while self.at < end:
            tag = self.varint(end)
            number, wire_type = tag >> 3, tag & 7
            if number == 0:
                raise Undecodable("has a field with the number 0")
            if wire_type == _END_OF_GROUP:
                if number != group:
                    raise Undecodable("ends a group that did not begin")
                self.levels -= 1
                return
            field = plan.fields.get(number)
            if field is None or not self._field(field, wire_type, end, into):
                self.more(1)
                self.unknown[plan.name, number] = None
                self._skip(number, wire_type, end)
        if group:
            raise ends_early()
        self.levels -= 1

    def _field(self, field: Field, wire_type: int, end: int, into: Raw) -> bool:
        """Read a field's value; return false, and read nothing, if another type of field was written."""
        if field.is_message:
            if wire_type != (_GROUP if field.type == _KIND.TYPE_GROUP else _LENGTH):
                return False
            self.more(1)
            self._inner(field, end, into)
        else:
            expected, read = _SCALARS[field.type]
            if wire_type == expected:
                self.more(1)
                _put(field, read(self, end), into)
            elif wire_type == _LENGTH and field.is_repeated:
                self._packed(read, self.length(end), into.setdefault(field.number, []))
            else:
                return False
        for rival in field.rivals:
            into.pop(rival, None)
        return True

    def _inner(self, field: Field, end: int, into: Raw) -> None:
        is_group = field.type == _KIND.TYPE_GROUP
        inner_end = end if is_group else self.length(end)
        if field.is_repeated:
            inner: Raw = {}
            into.setdefault(field.number, []).append(inner)
        else:
            inner = into.setdefault(field.number, {})
        self.message(field.message, inner_end, inner, field.number if is_group else 0)

    def _packed(self, read: _Read, end: int, values: list[Any]) -> None:
        while self.at < end:
            self.more(1)
            values.append(read(self, end))

    def _skip(self, number: int, wire_type: int, end: int) -> None:
        # Not by recursion: groups may be nested as deeply as there are bytes.
        open_groups: list[int] = []
        while True:
            match wire_type:
                case 0:
                    self.varint(end)
                case 1:
                    self.take(8, end)
                case 2:
                    self.at = self.length(end)
                case 3:
                    open_groups.append(number)
                case 4:
                    if not open_groups or open_groups.pop() != number:
                        raise Undecodable("ends a group that did not begin")
                case 5:
                    self.take(4, end)
                case _:
                    raise Undecodable(f"has a field of the unknown wire type {wire_type}")
            if not open_groups:
                return
            tag = self.varint(end)
            number, wire_type = tag >> 3, tag & 7


def _put(field: Field, value: Any, into: Raw) -> None:
    if field.is_repeated:
        into.setdefault(field.number, []).append(value)
    else:
        into[field.number] = value


def _zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


_Read = Callable[[_Source, int], Any]


def _text(source: _Source, end: int) -> str:
    inner_end = source.length(end)
    try:
        return source.take(inner_end - source.at, end).decode()
    except UnicodeDecodeError:
        raise Undecodable("has a string that is not UTF-8") from None


def _bytes(source: _Source, end: int) -> bytes:
    inner_end = source.length(end)
    return source.take(inner_end - source.at, end)


def _fixed(wire_type: int, form: str) -> tuple[int, _Read]:
    unpack = struct.Struct(form)
    return wire_type, lambda source, end: unpack.unpack(source.take(unpack.size, end))[0]


_SCALARS: dict[int, tuple[int, _Read]] = {
    _KIND.TYPE_DOUBLE: _fixed(_8_BYTES, "<d"),
    _KIND.TYPE_FLOAT: _fixed(_4_BYTES, "<f"),
    _KIND.TYPE_FIXED64: _fixed(_8_BYTES, "<Q"),
    _KIND.TYPE_FIXED32: _fixed(_4_BYTES, "<I"),
    _KIND.TYPE_SFIXED64: _fixed(_8_BYTES, "<q"),
    _KIND.TYPE_SFIXED32: _fixed(_4_BYTES, "<i"),
    _KIND.TYPE_INT64: (_VARINT, lambda source, end: _signed(source.varint(end), 64)),
    _KIND.TYPE_INT32: (_VARINT, lambda source, end: _signed(source.varint(end), 32)),
    _KIND.TYPE_ENUM: (_VARINT, lambda source, end: _signed(source.varint(end), 32)),
    _KIND.TYPE_UINT64: (_VARINT, lambda source, end: source.varint(end)),
    _KIND.TYPE_UINT32: (_VARINT, lambda source, end: source.varint(end) & 0xFFFFFFFF),
    _KIND.TYPE_SINT64: (_VARINT, lambda source, end: _zigzag(source.varint(end))),
    _KIND.TYPE_SINT32: (_VARINT, lambda source, end: _zigzag(source.varint(end) & 0xFFFFFFFF)),
    _KIND.TYPE_BOOL: (_VARINT, lambda source, end: source.varint(end) != 0),
    _KIND.TYPE_STRING: (_LENGTH, _text),
    _KIND.TYPE_BYTES: (_LENGTH, _bytes),
}
