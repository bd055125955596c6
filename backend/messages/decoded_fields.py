"""Keys and values as decoder processes return them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, NamedTuple

_FORMATS = frozenset(("avro", "json", "protobuf", "text", "bytes"))


class Parts(NamedTuple):
    """The bytes of a record."""

    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class DecodedField:
    """A key or value that people can read."""

    format: str
    """avro, json, protobuf, text or bytes."""
    value: Any
    """The JSON value of the first three formats; a text; bytes in base64; None if there is no key or value."""
    schema_id: int | None
    """Id of the schema that the bytes begin with, if it is known."""
    problem: str | None
    """Reason why the value is not decoded, or not shown as it is: a sentence."""


Pair = tuple[DecodedField, DecodedField]


def pair(parts: Parts, key: Any, value: Any) -> Pair:
    """Return the fields that a process sent for a record. Raises ValueError, TypeError for nonsense."""
    return _field(parts.key, key), _field(parts.value, value)


def undecoded(parts: Parts, problem: str) -> Pair:
    """Return the fields of a record that cannot be decoded."""
    return _raw(parts.key, "bytes", None, None), _raw(parts.value, "bytes", None, problem)


def _field(data: bytes | None, sent: Any) -> DecodedField:
    form, *values, schema_id, problem = sent
    if form not in _FORMATS or not isinstance(schema_id, int | None) or not isinstance(problem, str | None):
        raise ValueError("a field is not one")
    if not values:
        return _raw(data, form, schema_id, problem)
    (value,) = values
    if form == "bytes" or (form == "text" and not isinstance(value, str)):
        raise ValueError("a field has a value of another format")
    return DecodedField(form, value, schema_id, problem)


def _raw(data: bytes | None, form: str, schema_id: int | None, problem: str | None) -> DecodedField:
    if data is None:
        return DecodedField("bytes", None, schema_id, problem)
    shown = data.decode() if form == "text" else base64.b64encode(data).decode()
    return DecodedField("text" if form == "text" else "bytes", shown, schema_id, problem)
