"""Avro schemas as trees with resolved names (Avro specification 1.12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INTEGERS = {"int": 31, "long": 63}
"""Type -> bits of its numbers without the sign."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
COMPLEX = ("record", "error", "enum", "fixed", "array", "map")

Properties = dict[str, Any]
"""What the specification does not know, and logical types; in the order written."""
NOTHING = object()
"""Instead of a default: there is none. (A default may be null.)"""


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
    """A type with a name: the very same object wherever the name stands, so trees may hold rings."""

    type: str
    name: str
    """In full, without a dot for a name outside all namespaces."""
    doc: str | None
    aliases: list[str]
    """In full."""
    properties: Properties = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class Record(Named):
    """Also an `error`, which is a record in a protocol."""

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
