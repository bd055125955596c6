"""Check that a field's default is a value of its type (Avro 1.12, "Complex Types", table of field defaults)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backend.registry.formats.avro_types import (
    INTEGERS,
    NOTHING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from backend.registry.formats.schema_model import SchemaInvalid


def check(fields: Iterable[tuple[Field, str]]) -> None:
    """Raise SchemaInvalid for the first field with an invalid default; each field comes with its place."""
    values = _Values()
    for field, at in fields:
        if field.default is not NOTHING and not values.fits(field.type, field.default):
            kind = field.type.name if isinstance(field.type, Named) else field.type.type
            raise SchemaInvalid(
                f"The Avro schema is invalid at {at}/default: the default of field {field.name!r} is not a value "
                f"of its type {kind}."
            )


class _Values:
    """Cache of results: within unions and records the same question recurs."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        """Ids of type and value; both live as long as the schema."""

    def fits(self, kind: Type, value: Any) -> bool:
        if isinstance(kind, Primitive):
            return _primitive_fits(kind.type, value)
        if isinstance(kind, Enum):
            return value in kind.symbols
        if isinstance(kind, Fixed):
            return _primitive_fits("bytes", value) and len(value) == kind.size
        if not isinstance(value, list | dict):
            return isinstance(kind, Union) and any(self.fits(branch, value) for branch in kind.branches)
        key = id(kind), id(value)
        if key not in self._known:
            # A type that recurs below itself would need an endless value: there is none.
            self._known[key] = False
            self._known[key] = self._fits(kind, value)
        return self._known[key]

    def _fits(self, kind: Array | Map | Union | Record, value: list[Any] | dict[str, Any]) -> bool:
        if isinstance(kind, Union):
            return any(self.fits(branch, value) for branch in kind.branches)
        if isinstance(kind, Array):
            return isinstance(value, list) and all(self.fits(kind.of, each) for each in value)
        if isinstance(value, list):
            return False
        if isinstance(kind, Map):
            return all(self.fits(kind.of, each) for each in value.values())
        members = ((field, value.get(field.name, field.default)) for field in kind.fields)
        return all(member is not NOTHING and self.fits(field.type, member) for field, member in members)


def _primitive_fits(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean" or isinstance(value, bool):
        return kind == "boolean" and isinstance(value, bool)
    if kind in INTEGERS:
        bound = 1 << INTEGERS[kind]
        return isinstance(value, int) and -bound <= value < bound
    if kind in ("float", "double"):
        return isinstance(value, int | float)
    # Bytes are written as characters with the same code points.
    return isinstance(value, str) and (kind == "string" or all(ord(character) < 256 for character in value))
