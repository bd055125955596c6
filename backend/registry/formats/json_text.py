"""JSON of schemas: strict when it is read, without spaces when it is written."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from backend.registry.formats.schema_model import SchemaInvalid


def read(text: str) -> Any:
    """Read JSON. Raises SchemaInvalid for a text that is invalid by RFC 8259, or that is ambiguous."""
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise SchemaInvalid(
            f"The schema is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        ) from error


def write(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise SchemaInvalid(f"The schema is ambiguous: an object has the key {twice!r} more than once.")
    return made


def _no_constant(name: str) -> Any:
    raise SchemaInvalid(f"The schema is not JSON: {name} is not a number.")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise SchemaInvalid(f"The schema's number {_short(digits)} is too large.")
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:
        raise SchemaInvalid(f"The schema's number {_short(digits)} is too large.") from error


def _short(digits: str) -> str:
    return digits if len(digits) <= 30 else f"{digits[:30]}..."
