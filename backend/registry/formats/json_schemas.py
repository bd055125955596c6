"""JSON Schema: validation against the draft's meta-schema, with every reference resolved.

Drafts 4, 6, 7, 2019-09 and 2020-12; a schema without `$schema` is of draft 7, as in other registries. Nothing is
ever fetched: a `$ref` must resolve within the schema, to a reference, or to a draft's own meta-schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

import jsonschema_rs

from backend.registry.formats import json_text
from backend.registry.formats.schema_model import JSON, Parsed, Referenced, SchemaInvalid, identity, require_kind

_DRAFTS = {
    "json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}
_LOST = re.compile(r"Resource '(.*?)' is not present in a registry")
_BASE = "https://registry.invalid/"
"""Base of relative names in a schema without an id of its own."""


def parse(text: str, references: Sequence[Referenced], *, strict: bool) -> Parsed:
    """Parse a schema. Raises SchemaInvalid.

    `strict` changes nothing here: a schema that no validator accepts is of no use to a reader.
    """
    require_kind(JSON, references)
    tree = json_text.read(text)
    if not isinstance(tree, dict | bool):
        raise SchemaInvalid("The JSON schema is invalid: it must be an object, or true or false.")
    read = [(each.name, json_text.read(each.text)) for each in references]
    try:
        base = _base(tree)
        resources = [(urljoin(base, name), schema) for name, schema in read]
        registry = jsonschema_rs.Registry(resources, draft=jsonschema_rs.Draft7, retriever=_refuse_retrieval)
        _draft(tree)(tree, registry=registry, base_uri=base, offline=True)
    except jsonschema_rs.ValidationError as error:
        at = "".join(f"/{part}" for part in error.instance_path)
        raise SchemaInvalid(f"The JSON schema is invalid at {at or '/'}: {_reworded(error.message)}.") from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaInvalid(f"The JSON schema is invalid: {_reworded(str(error))}.") from error
    return _parsed(tree, json_text.write(tree), references)


def normalized(parsed: Parsed) -> Parsed:
    """Return the schema with all keys sorted."""
    return _parsed(parsed.tree, json_text.write(parsed.tree, sort_keys=True), parsed.referenced)


def _parsed(tree: Any, text: str, references: Sequence[Referenced]) -> Parsed:
    return Parsed(JSON, text, identity(JSON, text, references), tuple(references), tree)


def _draft(tree: Any) -> Any:
    said = tree.get("$schema") if isinstance(tree, dict) else None
    if said is None:
        return jsonschema_rs.Draft7Validator
    name = said.removesuffix("#").partition("://")[2] if isinstance(said, str) else None
    if name not in _DRAFTS:
        raise SchemaInvalid(
            f'The JSON schema\'s "$schema" is {json_text.write(said)}; supported are '
            f"{', '.join(f'https://{draft}' for draft in _DRAFTS)}."
        )
    return _DRAFTS[name]


def _base(tree: Any) -> str:
    said = tree.get("$id", tree.get("id")) if isinstance(tree, dict) else None
    return urljoin(_BASE, said) if isinstance(said, str) else _BASE


def _reworded(message: str) -> str:
    """Reword the validator's message, which reports unresolved references as failed downloads."""
    lost = _LOST.match(message)
    if not lost:
        return message
    where = lost[1].removeprefix(_BASE)
    return f'a "$ref" points to {where!r}, which is neither in the schema nor one of its references'


def _refuse_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is not one of the schema's references")
