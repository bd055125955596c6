"""Avro's binary encoding (specification 1.12), decoded by a schema into what JSON can hold.

A schema is compiled to one function for each of its types. Limits: `bounds`. A value of a union is shown without
the name of its branch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from backend.messages.decoding import readable_values
from backend.messages.decoding.bounds import (
    CHARACTERS_A_PART,
    MOST_LEVELS,
    MOST_PARTS,
    Undecodable,
    ends_early,
    too_many_levels,
    too_many_parts,
)
from backend.registry.formats.avro_types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union

_MOST_VARINT_BYTES = 10
_64_BITS = 2**64 - 1
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_FRACTIONS = {"millis": 3, "micros": 6, "nanos": 9}


class _Source:
    """Bytes of one value, how far they are read, and what is left of the limits."""

    __slots__ = ("at", "data", "levels", "parts")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.levels, self.parts = MOST_LEVELS, MOST_PARTS

    def take(self, length: int) -> bytes:
        at, end = self.at, self.at + length
        if length < 0:
            raise Undecodable("has a length below zero")
        if end > len(self.data):
            raise ends_early()
        self.at = end
        return self.data[at:end]

    def enter(self, parts: int) -> None:
        """Begin an object or array with this many values."""
        self.levels -= 1
        self.parts -= parts
        if self.levels < 0:
            raise too_many_levels()
        if self.parts < 0:
            raise too_many_parts()

    def more(self, parts: int) -> None:
        self.parts -= parts
        if self.parts < 0:
            raise too_many_parts()


_Read = Callable[[_Source], Any]


class AvroDecoder:
    """Decodes values of one schema."""

    def __init__(self, tree: Type) -> None:
        """Compile a schema, parsed by `backend.registry.formats.avro_schemas`."""
        self._records: dict[int, list[tuple[str, _Read]]] = {}
        self._waiting: list[Record] = []
        if isinstance(tree, Primitive) and tree.type == "bytes":
            self._read = _logical(tree, _all_bytes)
        else:
            self._read = self._compiled(tree)
        # One after the other, as records may be nested deeper than the stack.
        while self._waiting:
            record = self._waiting.pop()
            self._records[id(record)] += [(field.name, self._compiled(field.type)) for field in record.fields]

    def decode(self, data: bytes, at: int) -> tuple[Any, str | None]:
        """Decode the value that takes the bytes from `at` to the end; it never has a note. Raises Undecodable."""
        source = _Source(data, at)
        value = self._read(source)
        if source.at < len(data):
            raise Undecodable(f"has {len(data) - source.at:,} bytes too many")
        return value, None

    def _compiled(self, kind: Type) -> _Read:
        match kind:
            case Primitive():
                return _logical(kind, _PRIMITIVES[kind.type])
            case Fixed():
                return _logical(kind, lambda source: source.take(kind.size))
            case Enum():
                return lambda source: _symbol(source, kind.symbols)
            case Array():
                item = self._compiled(kind.of)
                return lambda source: _array(source, item)
            case Map():
                member = self._compiled(kind.of)
                return lambda source: _map(source, member)
            case Union():
                branches = [self._compiled(branch) for branch in kind.branches]
                return lambda source: _branch(source, branches)
            case Record():
                return self._record(kind)
        raise AssertionError(kind)

    def _record(self, record: Record) -> _Read:
        if id(record) not in self._records:
            self._records[id(record)] = []
            self._waiting.append(record)
        fields = self._records[id(record)]
        cost = len(record.fields) + sum(len(field.name) for field in record.fields) // CHARACTERS_A_PART

        def read(source: _Source) -> dict[str, Any]:
            source.enter(cost)
            value = {name: member(source) for name, member in fields}
            source.levels += 1
            return value

        return read


def _long(source: _Source) -> int:
    data, at = source.data, source.at
    number = shift = 0
    try:
        while (byte := data[at]) >= 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if at - source.at >= _MOST_VARINT_BYTES:
                raise Undecodable("has a number of more than 10 bytes")
    except IndexError:
        raise ends_early() from None
    source.at = at + 1
    number = (number | byte << shift) & _64_BITS
    return (number >> 1) ^ -(number & 1)


def _boolean(source: _Source) -> bool:
    byte = source.take(1)[0]
    if byte > 1:
        raise Undecodable(f"has the byte {byte} where a boolean is 0 or 1")
    return byte == 1


def _text(source: _Source) -> str:
    data = source.take(_long(source))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Undecodable("has a string that is not UTF-8") from None


def _all_bytes(source: _Source) -> bytes:
    """Read a value that is nothing but bytes. Confluent's serializer for Java writes them without their length."""
    start, end = source.at, len(source.data)
    try:
        data = source.take(_long(source))
        if source.at == end:
            return data
    except Undecodable:
        pass
    source.at = end
    return source.data[start:]


def _double(source: _Source) -> float | str:
    return readable_values.floating(_DOUBLE.unpack(source.take(8))[0])


def _single(source: _Source) -> float | str:
    return readable_values.single(_FLOAT.unpack(source.take(4))[0])


_PRIMITIVES: dict[str, _Read] = {
    "null": lambda source: None,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _single,
    "double": _double,
    "bytes": lambda source: source.take(_long(source)),
    "string": _text,
}


def _symbol(source: _Source, symbols: list[str]) -> str:
    number = _long(source)
    if not 0 <= number < len(symbols):
        raise Undecodable(f"has symbol {number} of an enum with {len(symbols):,} symbols")
    symbol = symbols[number]
    source.more(len(symbol) // CHARACTERS_A_PART)
    return symbol


def _branch(source: _Source, branches: list[_Read]) -> Any:
    number = _long(source)
    if not 0 <= number < len(branches):
        raise Undecodable(f"has branch {number} of a union with {len(branches):,} branches")
    return branches[number](source)


def _block(source: _Source) -> int:
    """Return how many items follow; 0 is the end."""
    count = _long(source)
    if count < 0:
        _long(source)  # its length in bytes, for readers that skip
        count = -count
    # Before the items are read: a schema may have items without a byte.
    source.more(count)
    return count


def _array(source: _Source, item: _Read) -> list[Any]:
    source.enter(0)
    values: list[Any] = []
    while count := _block(source):
        values += [item(source) for _ in range(count)]
    source.levels += 1
    return values


def _map(source: _Source, member: _Read) -> dict[str, Any]:
    source.enter(0)
    values: dict[str, Any] = {}
    while count := _block(source):
        for _ in range(count):
            name = _text(source)
            values[name] = member(source)
    source.levels += 1
    return values


def _logical(kind: Primitive | Fixed, read: _Read) -> _Read:
    """Return the function for a type with its logical type; one that does not fit the type is ignored."""
    logical, raw = kind.properties.get("logicalType"), kind.type
    if raw in ("bytes", "fixed"):
        return _of_bytes(logical, kind, read)
    shown = _SHOWN.get((raw, logical)) if isinstance(logical, str) else None
    if shown is None:
        return read

    def readable(source: _Source) -> int | str:
        number: int = read(source)
        text = shown(number)
        return number if text is None else text

    return readable


def _instant(digits: int, zone: str) -> Callable[[int], str | None]:
    return lambda units: readable_values.instant(units, digits, zone=zone)


def _time_of_day(digits: int) -> Callable[[int], str | None]:
    return lambda units: readable_values.time_of_day(units, digits)


_SHOWN: dict[tuple[str, str], Callable[[int], str | None]] = {
    ("int", "date"): readable_values.day,
    ("int", "time-millis"): _time_of_day(3),
    ("long", "time-micros"): _time_of_day(6),
    **{("long", f"timestamp-{name}"): _instant(digits, "Z") for name, digits in _FRACTIONS.items()},
    **{("long", f"local-timestamp-{name}"): _instant(digits, "") for name, digits in _FRACTIONS.items()},
}
"""Type and logical type -> text of a number; None for a number that it cannot show."""


def _of_bytes(logical: Any, kind: Primitive | Fixed, read: _Read) -> _Read:
    scale = kind.properties.get("scale", 0)
    if logical == "decimal" and isinstance(scale, int):
        return lambda source: _decimal(read(source), scale)
    if logical == "duration" and isinstance(kind, Fixed) and kind.size == 12:
        return lambda source: _duration(read(source))
    if logical == "uuid" and isinstance(kind, Fixed) and kind.size == 16:
        return lambda source: str(UUID(bytes=read(source)))
    return lambda source: readable_values.in_base64(read(source))


def _decimal(unscaled: bytes, scale: int) -> str:
    text = readable_values.decimal(unscaled, scale)
    return readable_values.in_base64(unscaled) if text is None else text


def _duration(data: bytes) -> str:
    months, days, milliseconds = struct.unpack("<III", data)
    return f"P{months}M{days}DT{milliseconds // 1000}.{milliseconds % 1000:03}S"
