"""Parsing of Avro schemas: JSON to trees, with all rules of the specification (Avro 1.12, "Schema Declaration").

Own code, tested against the `avro` and `fastavro` packages: the first puts a type with the empty namespace into
the enclosing namespace, accepts any field name and any default, and its time grows with the square of a record's
width; the second accepts records with two fields of one name, unions within unions and negative sizes. Both are
references in the tests where they are right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backend.registry.formats import avro_defaults, avro_text, json_text
from backend.registry.formats.avro_types import (
    COMPLEX,
    NOTHING,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Type,
    Union,
)
from backend.registry.formats.schema_model import AVRO, Parsed, Referenced, SchemaInvalid, identity, require_kind

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DEEPEST = 100
"""Most nested types, so that no walk over a schema can exhaust the stack."""
_ORDERS = ("ascending", "descending", "ignore")
_FIELD_WORDS = {"name", "type", "doc", "default", "order", "aliases"}
_TYPE_WORDS = {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values"}


def parse(text: str, references: Sequence[Referenced], *, strict: bool) -> Parsed:
    """Parse a schema. Raises SchemaInvalid.

    The text is stored as Avro's Java library writes it, by convention of registries, so that one schema gets one
    id whatever the order of its attributes.
    """
    require_kind(AVRO, references)
    parser = _Parser()
    for each in references:
        try:
            parser.schema(json_text.read(each.text), "", "", 0)
        except SchemaInvalid as error:
            raise SchemaInvalid(
                f"The reference {each.name!r}, version {each.version} of subject {each.subject!r}, "
                f"does not fit: {error}"
            ) from error
    known, parser.defaults = set(parser.names), []
    tree = parser.schema(json_text.read(text), "", "", 0)
    if strict:
        avro_defaults.check(parser.defaults)
    return _parsed(tree, avro_text.written(tree, known), references)


def normalized(parsed: Parsed) -> Parsed:
    known = set()
    if parsed.referenced:
        parser = _Parser()
        for each in parsed.referenced:
            parser.schema(json_text.read(each.text), "", "", 0)
        known = set(parser.names)
    return _parsed(parsed.tree, avro_text.normalized(parsed.tree, known), parsed.referenced)


def _parsed(tree: Type, text: str, references: Sequence[Referenced]) -> Parsed:
    return Parsed(AVRO, text, identity(AVRO, text, references), tuple(references), tree)


class _Parser:
    """Turns JSON into types; knows the names that were defined so far. `at` is a JSON pointer into the schema."""

    def __init__(self) -> None:
        self.names: dict[str, Record | Enum | Fixed] = {}
        self.defaults: list[tuple[Field, str]] = []
        """Fields to check when all types are complete, with their places."""

    def schema(self, said: Any, namespace: str, at: str, depth: int) -> Type:
        if depth > _DEEPEST:
            raise SchemaInvalid(f"The schema is nested deeper than {_DEEPEST} types.")
        if isinstance(said, str):
            return self._called(said, namespace, at)
        if isinstance(said, list):
            return self._union(said, namespace, at, depth)
        if not isinstance(said, dict):
            raise _invalid(at, "a schema must be a type's name, an object with a type, or a list of types")
        kind = said.get("type")
        if not isinstance(kind, str):
            raise _invalid(at, '"type" is missing' if kind is None else '"type" must be a string')
        if kind in PRIMITIVES:
            return Primitive(kind, _properties(said, _TYPE_WORDS))
        if kind == "array":
            return Array(self._within(said, "items", namespace, at, depth), _properties(said, _TYPE_WORDS))
        if kind == "map":
            return Map(self._within(said, "values", namespace, at, depth), _properties(said, _TYPE_WORDS))
        if kind in COMPLEX:
            return self._named(said, kind, namespace, at, depth)
        return self._called(kind, namespace, f"{at}/type")

    def _called(self, name: str, namespace: str, at: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name, {})
        # A name unknown in its namespace may be in no namespace: there is no other way to reference such a type.
        for full in dict.fromkeys([_full(name, namespace), name]):
            if full in self.names:
                return self.names[full]
        if name in COMPLEX:
            raise _invalid(at, f"type {name!r} must be an object with its attributes")
        raise _invalid(at, f"type {_full(name, namespace)!r} is not defined before its use, nor in a reference")

    def _within(self, said: dict[str, Any], key: str, namespace: str, at: str, depth: int) -> Type:
        if key not in said:
            raise _invalid(at, f'"{key}" is missing')
        return self.schema(said[key], namespace, f"{at}/{key}", depth + 1)

    def _union(self, said: list[Any], namespace: str, at: str, depth: int) -> Union:
        branches: list[Type] = []
        seen: set[str] = set()
        for index, each in enumerate(said):
            branch = self.schema(each, namespace, f"{at}/{index}", depth + 1)
            if isinstance(branch, Union):
                raise _invalid(f"{at}/{index}", "a union must not directly contain a union")
            called = branch.name if isinstance(branch, Named) else branch.type
            if called in seen:
                raise _invalid(f"{at}/{index}", f"the union contains {called!r} twice")
            seen.add(called)
            branches.append(branch)
        return Union(branches)

    def _named(self, said: dict[str, Any], kind: str, namespace: str, at: str, depth: int) -> Type:
        name = _checked_name(said, namespace, at)
        if name in self.names:
            raise _invalid(at, f"type {name!r} is defined twice")
        space = name.rpartition(".")[0]
        aliases = [_checked(_full(alias, space), f"{at}/aliases") for alias in _aliases(said, at)]
        doc = _text(said, "doc")
        made: Record | Enum | Fixed
        if kind == "enum":
            symbols, default = _symbols(said, at)
            made = Enum(kind, name, doc, aliases, _properties(said, _TYPE_WORDS | {"default"}), symbols, default)
        elif kind == "fixed":
            made = Fixed(kind, name, doc, aliases, _properties(said, _TYPE_WORDS), _size(said, at))
        else:
            made = Record(kind, name, doc, aliases, _properties(said, _TYPE_WORDS))
        self.names[name] = made
        if isinstance(made, Record):
            made.fields.extend(self._fields(said, space, at, depth))
        return made

    def _fields(self, said: dict[str, Any], namespace: str, at: str, depth: int) -> list[Field]:
        listed = said.get("fields")
        if not isinstance(listed, list):
            raise _invalid(at, 'a record must have "fields", a list')
        fields: dict[str, Field] = {}
        for index, each in enumerate(listed):
            here = f"{at}/fields/{index}"
            if not isinstance(each, dict):
                raise _invalid(here, "a field must be an object")
            name = each.get("name")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise _invalid(
                    here, f"{_shown(name)} is not a valid field name: letters, digits and _, no leading digit"
                )
            if name in fields:
                raise _invalid(here, f"the record has the field {name!r} twice")
            order = each.get("order", "ascending")
            if order not in _ORDERS:
                raise _invalid(here, f'"order" must be one of {", ".join(_ORDERS)}')
            fields[name] = Field(
                name,
                self._within(each, "type", namespace, here, depth),
                _text(each, "doc"),
                each.get("default", NOTHING),
                order,
                _aliases(each, here),
                _properties(each, _FIELD_WORDS),
            )
            self.defaults.append((fields[name], here))
        return list(fields.values())


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _checked_name(said: dict[str, Any], namespace: str, at: str) -> str:
    name, own = said.get("name"), said.get("namespace", namespace)
    if not isinstance(name, str):
        raise _invalid(at, '"name" is missing' if name is None else '"name" must be a string')
    if not isinstance(own, str):
        raise _invalid(at, '"namespace" must be a string')
    full = _checked(_full(name, own), at)
    if full.rpartition(".")[2] in PRIMITIVES:
        raise _invalid(at, f"{full!r} is the name of a primitive type")
    return full


def _checked(full: str, at: str) -> str:
    if not all(_NAME.fullmatch(part) for part in full.split(".")):
        raise _invalid(
            at, f"{_shown(full)} is not a valid name: letters, digits and _ between dots, no leading digit"
        )
    return full


def _symbols(said: dict[str, Any], at: str) -> tuple[list[str], str | None]:
    symbols, default = said.get("symbols"), said.get("default")
    if not isinstance(symbols, list):
        raise _invalid(at, 'an enum must have "symbols", a list')
    for index, symbol in enumerate(symbols):
        if not isinstance(symbol, str) or not _NAME.fullmatch(symbol):
            raise _invalid(
                f"{at}/symbols/{index}", f"{_shown(symbol)} is not a valid symbol: letters, digits and _ only"
            )
    if len(set(symbols)) < len(symbols):
        raise _invalid(f"{at}/symbols", "a symbol is listed twice")
    if default is not None and default not in symbols:
        raise _invalid(f"{at}/default", f"{_shown(default)} is not one of the enum's symbols")
    return symbols, default


def _size(said: dict[str, Any], at: str) -> int:
    size = said.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise _invalid(at, 'a fixed type must have "size", a number of bytes')
    return size


def _aliases(said: dict[str, Any], at: str) -> list[str]:
    aliases = said.get("aliases", [])
    if not isinstance(aliases, list):
        raise _invalid(f"{at}/aliases", "aliases must be a list")
    for alias in aliases:
        if not isinstance(alias, str):
            raise _invalid(f"{at}/aliases", f"{_shown(alias)} is not a valid name")
    return list(dict.fromkeys(aliases))


def _text(said: dict[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value if isinstance(value, str) else None


def _properties(said: dict[str, Any], words: set[str]) -> Properties:
    return {key: value for key, value in said.items() if key not in words}


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."


def _invalid(at: str, what: str) -> SchemaInvalid:
    return SchemaInvalid(f"The Avro schema is invalid at {at or '/'}: {what}.")
