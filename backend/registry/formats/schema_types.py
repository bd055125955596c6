"""The schema languages of the registry, by the type names of its clients."""

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
    """Parse a schema. Raises SchemaInvalid.

    `references` holds all that the schema needs, each after its own references.

    Without `strict`, schemas pass that registries used to accept: for a schema that is already stored, rules that
    no reader needs are not checked (an Avro default of another type than its field).
    """
    if kind not in _LANGUAGES:
        raise SchemaInvalid(f"Unknown schema type {kind!r}; supported are {', '.join(KINDS)}.")
    try:
        text.encode()
        parsed = _LANGUAGES[kind].parse(text, tuple(references), strict=strict)
        parsed.text.encode()
    except UnicodeEncodeError as error:
        raise SchemaInvalid("The schema contains an unpaired surrogate, which UTF-8 cannot encode.") from error
    except RecursionError as error:
        raise SchemaInvalid("The schema is nested too deeply.") from error
    return parsed


def normalized(parsed: Parsed) -> Parsed:
    """Return the schema in normal form: full names, sorted keys, no comments.

    For registrations with `normalize=true`. Raises SchemaInvalid if there is no normal form.
    """
    try:
        return _LANGUAGES[parsed.kind].normalized(parsed)
    except RecursionError as error:
        raise SchemaInvalid("The schema is nested too deeply for a normal form.") from error
