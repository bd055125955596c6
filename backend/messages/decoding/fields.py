"""Keys and values of records, decoded: by the schema whose id they begin with, or by what they look like.

0, id of a known schema, ...   avro, json or protobuf; bytes if they do not fit the schema
JSON object, array, string     json
other UTF-8                    text, without control characters that no text has
anything else                  bytes
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from backend.messages.decoding import json_values
from backend.messages.decoding.bounds import MOST_PARTS_SENT, Undecodable, has_more_parts, too_many_levels
from backend.messages.decoding.comparisons import NOTHING
from backend.messages.decoding.json_values import NotJson
from backend.messages.decoding.schemas import Decoder, SchemaBeyondLimits, SchemaUnusable

_ID_BYTES = 5
_LONG_BYTES = 8
_MOST_ID = 2**31 - 1
_JSON_STARTS = (b"{", b"[", b'"')
_WHITESPACE = json_values.WHITESPACE.encode()
# Tabs, line ends and the escape of coloured log lines are text; a zero or a start of heading is not.
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_DUMPED = json.JSONEncoder(ensure_ascii=False).encode
MANY_VALUES = "It consists of so many values that it is shown as text."
MOST_PROBLEM_CHARACTERS = 500
NO_MEMORY = "Decoding it takes more memory than a record may use."


class KnownSchema(NamedTuple):
    """A schema of a request: the format of its values, and their decoder or why there is none."""

    format: str
    decoder: Decoder | SchemaUnusable


class Field(NamedTuple):
    """A decoded key or value. `is_raw`: its bytes are shown, as text or in base64; `value` is for filters only."""

    format: str
    value: Any
    """NOTHING if there is no value that an expression could be about."""
    schema_id: int | None = None
    problem: str | None = None
    is_raw: bool = False
    is_undecided: bool = False
    """An expression may hold for it all the same: its schema is beyond the limits."""


_NULL = Field("bytes", None, is_raw=True)
_BYTES = Field("bytes", NOTHING, is_raw=True)


def decoded(data: bytes | None, schemas: Mapping[int, KnownSchema]) -> Field:
    """Decode a key or a value. `schemas`: those that are known, by id."""
    if data is None:
        return _NULL
    if data[:1] == b"\0":
        if len(data) >= _ID_BYTES:
            return _with_id(data, int.from_bytes(data[1:_ID_BYTES], "big"), schemas)
        return _BYTES
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _BYTES
    first = data[:1]
    if first in _JSON_STARTS or (first.isspace() and data.lstrip(_WHITESPACE)[:1] in _JSON_STARTS):
        return _perhaps_json(text)
    return _BYTES if _NO_TEXT.search(text) else Field("text", text, is_raw=True)


def _perhaps_json(text: str) -> Field:
    try:
        return Field("json", json_values.read(text))
    except NotJson:
        return _BYTES if _NO_TEXT.search(text) else Field("text", text, is_raw=True)
    except Undecodable as error:
        return Field("text", text, problem=f"It is JSON, but is shown as text: it {error}.", is_raw=True)
    except MemoryError:
        return Field("text", text, problem=NO_MEMORY, is_raw=True)


def _with_id(data: bytes, schema_id: int, schemas: Mapping[int, KnownSchema]) -> Field:
    known = schemas.get(schema_id)
    if known is None:
        # Numbers of 8 bytes, such as times, begin like that, too.
        if not 0 < schema_id <= _MOST_ID or len(data) == _LONG_BYTES:
            return _BYTES
        return _BYTES._replace(problem=f"It begins with the id of a schema that is not known here: {schema_id}.")
    if isinstance(known.decoder, SchemaUnusable):
        found = _undecoded(schema_id, f"Schema {schema_id} cannot be used. {known.decoder}")
        return found._replace(is_undecided=isinstance(known.decoder, SchemaBeyondLimits))
    try:
        value, note = known.decoder.decode(data, _ID_BYTES)
        return Field(known.format, value, schema_id, note)
    except RecursionError:
        problem: object = too_many_levels()
    except Undecodable as error:
        problem = error
    except (NotJson, UnicodeDecodeError):
        problem = "is not JSON"
    except MemoryError:
        return _undecoded(schema_id, NO_MEMORY)
    return _undecoded(schema_id, f"It does not fit schema {schema_id}: it {problem}.")


def _undecoded(schema_id: int, problem: str) -> Field:
    return _BYTES._replace(schema_id=schema_id, problem=problem)


def written(field: Field) -> str:
    """Write a field for the parent: `[format, value, schema id, problem]`, without a value if it is raw."""
    if field.is_raw:
        return _listed(field.format, None, field.schema_id, field.problem)
    has_many = has_more_parts(field.value, MOST_PARTS_SENT)
    if has_many and field.schema_id is None:
        return _listed("text", None, None, _both(field.problem, MANY_VALUES))  # the JSON of the record itself
    try:
        value, note = json_values.write(field.value)
    except MemoryError:
        return _listed("bytes", None, field.schema_id, NO_MEMORY)
    if not json_values.is_short(value):
        return _listed("bytes", None, field.schema_id, "Decoded, it is too long to be shown.")
    if has_many:
        return _listed("text", _DUMPED(value), field.schema_id, _both(field.problem, MANY_VALUES))
    return _listed(field.format, value, field.schema_id, field.problem or note)


def _both(first: str | None, second: str) -> str:
    return second if first is None else f"{first} {second}"


def _listed(form: str, value: str | None, schema_id: int | None, problem: str | None) -> str:
    if problem is not None and len(problem) > MOST_PROBLEM_CHARACTERS:
        problem = problem[:MOST_PROBLEM_CHARACTERS] + "..."
    parts = (f'"{form}"', value, "null" if schema_id is None else str(schema_id), json_values.write(problem)[0])
    return f"[{','.join(part for part in parts if part is not None)}]"
