"""Avro schemas as trees with resolved names (Avro specification 1.12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INTEGERS = {"int": 31, "long": 63}
"""Type -> bits of its numbers without the sign."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
COMPLEX = ("record", "error", "enum", "fixed", "array", "map")

Properties = dict[str, Any]
"""Attributes that the specification does not define, and logical types; in the order written."""
NOTHING = object()
"""Marks a missing default; a default may be null."""


@dataclass(eq=False)
class Primitive:
    type: str
    properties: Properties


@dataclass(eq=False)
class Array:
    of: Type
    properties: Properties
    type: str = "array"


@dataclass(eq=False)
class Map:
    of: Type
    properties: Properties
    type: str = "map"


@dataclass(eq=False)
class Union:
    branches: list[Type]
    type: str = "union"


@dataclass(eq=False)
class Named:
    """A named type: the same object at every use of the name, so trees may have cycles."""

    type: str
    name: str
    """Full name, without a dot for a name in no namespace."""
    doc: str | None
    aliases: list[str]
    """Full names."""
    properties: Properties = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class Record(Named):
    """A record, or an `error`, which is a record in a protocol."""

    fields: list[Field] = field(default_factory=list)


@dataclass(eq=False)
class Enum(Named):
    symbols: list[str] = field(default_factory=list)
    default: str | None = None


@dataclass(eq=False)
class Fixed(Named):
    size: int = 0


@dataclass(eq=False)
class Field:
    name: str
    type: Type
    doc: str | None
    default: Any
    """JSON, or NOTHING."""
    order: str
    aliases: list[str]
    properties: Properties


Type = Primitive | Array | Map | Union | Record | Enum | Fixed
