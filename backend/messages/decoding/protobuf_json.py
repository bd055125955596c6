"""Protobuf messages as JSON: names, defaults, and the well-known types in their readable forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from backend.messages.decoding import readable_values
from backend.messages.decoding.bounds import CHARACTERS_A_PART
from backend.messages.decoding.protobuf_plans import Field, Plan, Show

_KIND = FieldDescriptor
_NANOS = 10**9
_DIGITS = ((_NANOS, 0), (10**6, 3), (10**3, 6), (1, 9))
"""Divisor -> digits of a fraction that it divides: ProtoJSON writes 0, 3, 6 or 9."""
_TIME_TYPES = {1: _KIND.TYPE_INT64, 2: _KIND.TYPE_INT32}
_DECIMAL_TYPES = {1: _KIND.TYPE_BYTES, 2: _KIND.TYPE_UINT32, 3: _KIND.TYPE_INT32}
_PACKAGE = "google.protobuf."
_WRAPPERS = frozenset(
    f"{_PACKAGE}{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

Count = Callable[[int], None]
"""Counts values, and raises Undecodable if there are too many."""


def shown(plan: Plan, raw: dict[int, Any], count: Count) -> Any:
    """Return a message as what JSON can hold. Raises Undecodable if its defaults are too many."""
    special = _SPECIAL.get(plan.name)
    if special is not None and (text := special(plan, raw, count)) is not _PLAIN:
        return text
    count(plan.cost)
    made, characters = {}, 0
    for number, field in plan.fields.items():
        if number in raw:
            made[field.name] = _field(field, raw[number], count)
        elif not field.has_presence:
            made[field.name] = field.default()
        else:
            continue
        characters += len(field.name) + field.symbol_characters
    count(characters // CHARACTERS_A_PART)
    return made


def _field(field: Field, value: Any, count: Count) -> Any:
    if field.symbol_characters and field.is_repeated:
        count(len(value) * field.symbol_characters // CHARACTERS_A_PART)
    if field.is_map:
        return dict(_entry(field.message, each, count) for each in value)
    show: Show = (lambda each: shown(field.message, each, count)) if field.is_message else field.show
    return [show(each) for each in value] if field.is_repeated else show(value)


def _entry(plan: Plan, raw: dict[int, Any], count: Count) -> tuple[str, Any]:
    key, value = plan.fields[1], plan.fields[2]
    name = raw[1] if 1 in raw else key.default()
    if isinstance(name, bool):
        name = "true" if name else "false"
    count(value.symbol_characters // CHARACTERS_A_PART)
    if 2 not in raw and not value.is_message:
        return str(name), value.default()
    return str(name), _field(value, raw.get(2, {}), count)


_PLAIN = object()
"""Says that a message is shown as any other."""


def _timestamp(plan: Plan, raw: dict[int, Any], _count: Count) -> Any:
    seconds, nanos = raw.get(1, 0), raw.get(2, 0)
    if plan.types != _TIME_TYPES or not 0 <= nanos < _NANOS:
        return _PLAIN
    divisor, digits = _fraction(nanos)
    text = readable_values.instant((seconds * _NANOS + nanos) // divisor, digits)
    return _PLAIN if text is None else text


def _duration(plan: Plan, raw: dict[int, Any], _count: Count) -> Any:
    seconds, nanos = raw.get(1, 0), raw.get(2, 0)
    if plan.types != _TIME_TYPES or abs(nanos) >= _NANOS or seconds * nanos < 0:
        return _PLAIN
    divisor, digits = _fraction(abs(nanos))
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}" + (f".{abs(nanos) // divisor:0{digits}}s" if digits else "s")


def _fraction(nanos: int) -> tuple[int, int]:
    return next(each for each in _DIGITS if nanos % each[0] == 0)


def _decimal(plan: Plan, raw: dict[int, Any], _count: Count) -> Any:
    if plan.types != _DECIMAL_TYPES:
        return _PLAIN
    text = readable_values.decimal(raw.get(1, b""), raw.get(3, 0))
    return _PLAIN if text is None else text


def _only_field(plan: Plan, raw: dict[int, Any], count: Count) -> Any:
    """Show a message with one field as this field: wrappers of scalars, structs and lists."""
    if set(plan.fields) != {1}:
        return _PLAIN
    field = plan.fields[1]
    if 1 in raw:
        return _field(field, raw[1], count)
    return {} if field.is_message and not field.is_repeated else field.default()


def _any_json(plan: Plan, raw: dict[int, Any], count: Count) -> Any:
    """Show `google.protobuf.Value` as the one field that it has; its first is null."""
    found = [number for number in plan.fields if number in raw]
    if not found or found == [1]:
        return None
    return _field(plan.fields[found[0]], raw[found[0]], count)


_SPECIAL: dict[str, Callable[[Plan, dict[int, Any], Count], Any]] = {
    f"{_PACKAGE}Timestamp": _timestamp,
    f"{_PACKAGE}Duration": _duration,
    "confluent.type.Decimal": _decimal,
    f"{_PACKAGE}Struct": _only_field,
    f"{_PACKAGE}ListValue": _only_field,
    f"{_PACKAGE}Value": _any_json,
    **dict.fromkeys(_WRAPPERS, _only_field),
}
