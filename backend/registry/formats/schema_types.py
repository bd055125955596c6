"""The schema languages of the registry, by the names that its clients give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backend.registry.formats import avro_schemas, json_schemas, protobuf_schemas
from backend.registry.formats.schema_model import (
    AVRO,
    JSON,
    PROTOBUF,
    CheckUnfinished,
    Parsed,
    Referenced,
    SchemaInvalid,
)

__all__ = ["KINDS", "CheckUnfinished", "Parsed", "Referenced", "SchemaInvalid", "normalized", "parse"]


class _Language(Protocol):
    def parse(self, text: str, references: Sequence[Referenced], *, strict: bool) -> Parsed: ...

    def normalized(self, parsed: Parsed) -> Parsed: ...


_LANGUAGES: dict[str, _Language] = {AVRO: avro_schemas, JSON: json_schemas, PROTOBUF: protobuf_schemas}
KINDS = tuple(_LANGUAGES)


def parse(kind: str, text: str, references: Sequence[Referenced] = (), *, strict: bool = True) -> Parsed:
    """Raises SchemaInvalid. `references` holds all that the schema needs, each after what it needs itself.

    Not strict takes what registries took in former times: of a schema that is already stored, rules that no reader
    needs are not checked (an Avro default of another type than its field).
    """
    if kind not in _LANGUAGES:
        raise SchemaInvalid(f"There is no schema type {kind!r}; the types are {', '.join(KINDS)}.")
    try:
        text.encode()
        parsed = _LANGUAGES[kind].parse(text, tuple(references), strict=strict)
        parsed.text.encode()
    except UnicodeEncodeError as error:
        raise SchemaInvalid("The schema has half of a surrogate pair in it, which UTF-8 cannot say.") from error
    except RecursionError as error:
        raise SchemaInvalid("The schema is nested too deeply.") from error
    return parsed


def normalized(parsed: Parsed) -> Parsed:
    """The schema without what its way of writing adds: names in full, keys in order, no comments.

    For who registers with `normalize=true`. Raises SchemaInvalid if it cannot be said in normal form.
    """
    try:
        return _LANGUAGES[parsed.kind].normalized(parsed)
    except RecursionError as error:
        raise SchemaInvalid("The schema is nested too deeply for a normal form.") from error
