"""Writing of Avro schemas as JSON: as they are stored, and in normal form.

The stored text is what `toString` of Avro's Java library gives, attribute by attribute, since registries compare
and hash that text: a schema that was registered with its attributes in another order is the same schema. The
normal form has full names, attributes in the order of the specification's canonical form, then the rest, sorted.
"""

from __future__ import annotations

import json
from typing import Any

from backend.registry.formats import json_text
from backend.registry.formats.avro_types import (
    COMPLEX,
    NOTHING,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)

_TYPE_NAMES = {*PRIMITIVES, *COMPLEX, "union"}


def written(tree: Type, known: set[str]) -> str:
    """`known` are the names that references define; others are defined where they first stand."""
    return json_text.write(_stored(tree, "", set(known)))


def normalized(tree: Type, known: set[str]) -> str:
    return json_text.write(_normal(tree, set(known)))


def _stored(kind: Type, namespace: str, known: set[str]) -> Any:
    if isinstance(kind, Primitive):
        return {"type": kind.type, **kind.properties} if kind.properties else kind.type
    if isinstance(kind, Union):
        return [_stored(branch, namespace, known) for branch in kind.branches]
    if isinstance(kind, Array | Map):
        key = "items" if isinstance(kind, Array) else "values"
        return {"type": kind.type, key: _stored(kind.of, namespace, known), **kind.properties}
    if kind.name in known:
        return _qualified(kind.name, namespace)
    known.add(kind.name)
    said: dict[str, Any] = {"type": kind.type, "name": kind.simple_name}
    if kind.namespace != namespace:
        said["namespace"] = kind.namespace
    if kind.doc is not None:
        said["doc"] = kind.doc
    if isinstance(kind, Record):
        said["fields"] = [_stored_field(field, kind.namespace, known) for field in kind.fields]
    elif isinstance(kind, Enum):
        said["symbols"] = kind.symbols
        if kind.default is not None:
            said["default"] = kind.default
    else:
        said["size"] = kind.size
    said |= kind.properties
    if kind.aliases:
        said["aliases"] = [_qualified(alias, kind.namespace) for alias in kind.aliases]
    return said


def _stored_field(field: Field, namespace: str, known: set[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"name": field.name, "type": _stored(field.type, namespace, known)}
    if field.doc is not None:
        said["doc"] = field.doc
    if field.default is not NOTHING:
        said["default"] = field.default
    if field.order != "ascending":
        said["order"] = field.order
    if field.aliases:
        said["aliases"] = field.aliases
    return {**said, **field.properties}


def _qualified(name: str, namespace: str) -> str:
    """Qualify a name unless the enclosing namespace does; an unqualified `map` would be read as that type."""
    space, _, simple = name.rpartition(".")
    return simple if space == namespace and simple not in _TYPE_NAMES else name


def _normal(kind: Type, known: set[str]) -> Any:
    if isinstance(kind, Primitive):
        return {"type": kind.type, **_sorted_properties(kind)} if kind.properties else kind.type
    if isinstance(kind, Union):
        return [_normal(branch, known) for branch in kind.branches]
    if isinstance(kind, Array | Map):
        key = "items" if isinstance(kind, Array) else "values"
        return {"type": kind.type, key: _normal(kind.of, known), **_sorted_properties(kind)}
    if kind.name in known:
        return kind.name
    known.add(kind.name)
    said: dict[str, Any] = {"name": kind.name, "type": kind.type}
    if isinstance(kind, Record):
        said["fields"] = [_normal_field(field, known) for field in kind.fields]
    elif isinstance(kind, Enum):
        said["symbols"] = kind.symbols
    else:
        said["size"] = kind.size
    if kind.doc:
        said["doc"] = kind.doc
    if kind.aliases:
        said["aliases"] = sorted(kind.aliases)
    if isinstance(kind, Enum) and kind.default is not None:
        said["default"] = kind.default
    return {**said, **_sorted_properties(kind)}


def _normal_field(field: Field, known: set[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"name": field.name, "type": _normal(field.type, known), "order": field.order}
    if field.doc is not None:
        said["doc"] = field.doc
    if field.aliases:
        said["aliases"] = sorted(field.aliases)
    if field.default is not NOTHING:
        said["default"] = field.default
    return {**said, **_sorted_properties(field)}


def _sorted_properties(owner: Primitive | Array | Map | Named | Field) -> dict[str, Any]:
    sorted_within: dict[str, Any] = json.loads(json_text.write(owner.properties, sort_keys=True))
    return sorted_within
