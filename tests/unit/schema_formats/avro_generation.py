"""Random Avro schemas, changes to them, and data that they allow; drawn by Hypothesis, so that failures shrink."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from backend.registry.formats import schema_types
from backend.registry.formats.avro_types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union
from backend.registry.formats.schema_model import Parsed, SchemaInvalid

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
WIDER = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "\u00ff",
    "string": "s",
}

VALUES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=3).filter(lambda value: value.isascii()),
    "string": st.text(max_size=3),
}
"""Bytes that are also text: only those can be read as a string."""

Json = Any


class _Names:
    def __init__(self) -> None:
        self.count = 0
        self.known: list[str] = []

    def new(self) -> str:
        self.count += 1
        return f"T{self.count}"


@st.composite
def schemas(draw: st.DrawFn) -> Json:
    """A record as JSON; its name is `T1`."""
    return _record(draw, _Names(), 3)


def _schema(draw: st.DrawFn, names: _Names, depth: int) -> Json:
    kinds = (
        ["primitive"]
        if depth == 0
        else ["primitive", "primitive", "array", "map", "union", "record", "enum", "fixed"]
    )
    kind = draw(st.sampled_from([*kinds, "known"] if names.known else kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "known":
        return draw(st.sampled_from(names.known))
    if kind == "array":
        return {"type": "array", "items": _schema(draw, names, depth - 1)}
    if kind == "map":
        return {"type": "map", "values": _schema(draw, names, depth - 1)}
    if kind == "union":
        return _union(draw, names, depth)
    if kind == "record":
        return _record(draw, names, depth - 1)
    name = names.new()
    names.known.append(name)
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(0, 3))}
    made = {"type": "enum", "name": name, "symbols": ["A", "B", "C"][: draw(st.integers(1, 3))]}
    return {**made, "default": "A"} if draw(st.booleans()) else made


def _union(draw: st.DrawFn, names: _Names, depth: int) -> Json:
    branches: dict[str, Json] = {}
    for _ in range(draw(st.integers(1, 4))):
        branch = _schema(draw, names, depth - 1)
        if not isinstance(branch, list):
            branches.setdefault(branch if isinstance(branch, str) else branch.get("name", branch["type"]), branch)
    return list(branches.values()) or ["null"]


def _record(draw: st.DrawFn, names: _Names, depth: int) -> Json:
    name = names.new()
    fields = []
    for index in range(draw(st.integers(0, 4))):
        kind = _schema(draw, names, depth)
        field = {"name": f"f{index}", "type": kind}
        if isinstance(kind, str) and kind in DEFAULTS and draw(st.booleans()):
            field["default"] = DEFAULTS[kind]
        fields.append(field)
    if draw(st.integers(0, 4)) == 0:
        fields.append({"name": "next", "type": ["null", name], "default": None})
    names.known.append(name)
    return {"type": "record", "name": name, "fields": fields}


def nodes(schema: Json) -> list[Json]:
    """All objects in a schema that are types; not the names that stand for them."""
    if isinstance(schema, list):
        return [node for branch in schema for node in nodes(branch)]
    if not isinstance(schema, dict):
        return []
    below = [schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", []))]
    return [schema, *(node for each in below for node in nodes(each))]


def fields(schema: Json) -> list[Json]:
    return [field for node in nodes(schema) for field in node.get("fields", [])]


@st.composite
def changed(draw: st.DrawFn, schema: Json) -> Json:
    """The schema after up to three changes of any kind."""
    made = copy.deepcopy(schema)
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from(CHANGES))(draw, made)
    return made


def _field_added(draw: st.DrawFn, schema: Json) -> None:
    record = draw(st.sampled_from([node for node in nodes(schema) if "fields" in node]))
    kind = draw(st.sampled_from(PRIMITIVES))
    added = {"name": f"n{len(record['fields'])}", "type": kind}
    record["fields"].append({**added, "default": DEFAULTS[kind]} if draw(st.booleans()) else added)


def _field_removed(draw: st.DrawFn, schema: Json) -> None:
    for record in nodes(schema):
        removable = [each for each in record.get("fields", []) if isinstance(each["type"], str)]
        if removable:
            record["fields"].remove(draw(st.sampled_from(removable)))
            return


def _field_renamed(draw: st.DrawFn, schema: Json) -> None:
    for field in fields(schema)[:1]:
        old, field["name"] = field["name"], field["name"] + "x"
        if draw(st.booleans()):
            field["aliases"] = [old]


def _type_changed(draw: st.DrawFn, schema: Json) -> None:
    plain = [field for field in fields(schema) if field["type"] in PRIMITIVES]
    if plain:
        field = draw(st.sampled_from(plain))
        field["type"] = draw(st.sampled_from([*PRIMITIVES, WIDER.get(field["type"], "null")]))
        field.pop("default", None)


def _made_union(draw: st.DrawFn, schema: Json) -> None:
    plain = [field for field in fields(schema) if field["type"] in PRIMITIVES and field["type"] != "null"]
    if plain:
        field = draw(st.sampled_from(plain))
        field["type"] = ["null", field["type"]]
        field.pop("default", None)


def _branch_removed(draw: st.DrawFn, schema: Json) -> None:
    unions = [field for field in fields(schema) if isinstance(field["type"], list) and field["name"] != "next"]
    for field in unions[:1]:
        plain = [branch for branch in field["type"] if isinstance(branch, str)]
        if plain and len(field["type"]) > 1:
            field["type"].remove(draw(st.sampled_from(plain)))


def _symbol_changed(draw: st.DrawFn, schema: Json) -> None:
    enums = [node for node in nodes(schema) if node["type"] == "enum"]
    if enums:
        enum = draw(st.sampled_from(enums))
        enum["symbols"] = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", "C", "D"]]))


def _size_changed(draw: st.DrawFn, schema: Json) -> None:
    for fixed in [node for node in nodes(schema) if node["type"] == "fixed"][:1]:
        fixed["size"] += draw(st.integers(0, 1))


CHANGES: list[Callable[[st.DrawFn, Json], None]] = [
    _field_added,
    _field_removed,
    _field_renamed,
    _type_changed,
    _made_union,
    _branch_removed,
    _symbol_changed,
    _size_changed,
]


def parsed(schema: Json) -> Parsed:
    """Passes by what is no schema: what was dropped may have held the definition that another place needs."""
    try:
        return schema_types.parse("AVRO", json.dumps(schema))
    except SchemaInvalid:
        reject()


def data(draw: st.DrawFn, kind: Type, depth: int = 0) -> Any:
    """A value of this type, as Python's Avro libraries take it; ends rings where a union or a list lets it."""
    if isinstance(kind, Primitive):
        return draw(VALUES[kind.type])
    if isinstance(kind, Union):
        plain = [branch for branch in kind.branches if not isinstance(branch, Record)]
        return data(draw, draw(st.sampled_from(plain if depth > 3 and plain else kind.branches)), depth + 1)
    if isinstance(kind, Array | Map):
        names = [] if depth > 3 else ["a", "b"][: draw(st.integers(0, 2))]
        made = {name: data(draw, kind.of, depth + 1) for name in names}
        return list(made.values()) if isinstance(kind, Array) else made
    if isinstance(kind, Enum):
        return draw(st.sampled_from(kind.symbols))
    if isinstance(kind, Fixed):
        return draw(st.binary(min_size=kind.size, max_size=kind.size))
    if depth > 30:
        reject()
    return {field.name: data(draw, field.type, depth + 1) for field in kind.fields}
