"""Canonical JSON: one spelling per value, the same before and after PostgreSQL's jsonb.

The hash chain is computed over this spelling, so a value that jsonb would change (or refuse) must not get in: a
chain that does not verify after an honest write would be worthless. `check` names the place of such a value.
"""

from __future__ import annotations

import json
import math
from typing import Any

from backend.domain.base.errors import FieldError
from backend.eventlog.faults import NotStorable

MAX_BYTES = 1 << 20  # of one event's data; a feed page of 1,000 events stays below 1 GiB
MAX_DEPTH = 100
INTEGER_LIMIT = 1 << 63  # offsets and positions are signed 64 bits; JSON readers lose more


def encode(value: Any) -> bytes:
    """Encode with keys sorted by code point, no spaces, UTF-8 and shortest floats."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def plain(value: Any) -> Any:
    """Return the same value with lists for tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def check(value: Any, what: str) -> None:
    """Raise `NotStorable` unless `value` (of JSON types) survives jsonb unchanged and is small enough."""
    place = _first_bad(value, "", 0)
    if place is not None:
        raise NotStorable(f"{what}: {place.detail}", (place,))
    size_bytes = len(encode(value))
    if size_bytes > MAX_BYTES:
        raise NotStorable(f"{what}: {size_bytes} bytes as JSON; at most {MAX_BYTES} can be stored")


def _first_bad(value: Any, pointer: str, depth: int) -> FieldError | None:
    if depth > MAX_DEPTH:
        return FieldError(pointer, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for key, item in value.items():
            detail = _bad_text(key) if isinstance(key, str) else "has a key that is not text"
            if detail:
                return FieldError(pointer, detail)
            escaped = key.replace("~", "~0").replace("/", "~1")
            bad = _first_bad(item, f"{pointer}/{escaped}", depth + 1)
            if bad:
                return bad
        return None
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            bad = _first_bad(item, f"{pointer}/{index}", depth + 1)
            if bad:
                return bad
        return None
    detail = _bad_scalar(value)
    return FieldError(pointer, detail) if detail else None


def _bad_scalar(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _bad_text(value)
    if isinstance(value, int):
        return None if -INTEGER_LIMIT <= value < INTEGER_LIMIT else "is not a signed 64-bit integer"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "is not a finite number"
        # jsonb keeps numerics: it drops the sign of -0.0 and returns 1e16 as an integer.
        if (value == 0 and math.copysign(1, value) < 0) or "e+" in repr(value):
            return "is a number that the database would change"
        return None
    return f"is a {type(value).__name__}, which JSON does not have"


def _bad_text(text: str) -> str | None:
    if "\x00" in text:
        return "contains the character NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair"
    return None
