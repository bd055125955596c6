"""JSON of records: read within limits, and written so that every reader takes it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from backend.messages.decoding.bounds import (
    MOST_CHARACTERS_SENT,
    MOST_LEVELS,
    Undecodable,
    has_more_levels,
    too_many_levels,
)

WHITESPACE = " \t\n\r"
_HALVES = re.compile("[\ud800-\udfff]")
REPLACED = "Half of a surrogate pair in it is shown as U+FFFD."
TOO_LARGE = "A number in it is too large for a reader, and shown as Infinity."


class NotJson(Exception):
    """A text is not JSON."""


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} is not a number")


# The scanner itself, as it reads small values twice as fast as `json.loads`.
_SCAN: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]
_DUMPED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def read(text: str) -> Any:
    """Read JSON. Raises NotJson; Undecodable if it is JSON beyond a limit."""
    stripped = text.strip(WHITESPACE)
    try:
        value, end = _SCAN(stripped, 0)
    except (StopIteration, json.JSONDecodeError):
        raise NotJson from None
    except RecursionError:
        raise too_many_levels() from None
    except ValueError:
        raise Undecodable("has a number with thousands of digits") from None
    if end != len(stripped):
        raise NotJson
    # Each level has a bracket, so most values need no look at their levels.
    if stripped.count("{") + stripped.count("[") > MOST_LEVELS and has_more_levels(value, MOST_LEVELS):
        raise too_many_levels()
    return value


def write(value: Any) -> tuple[str, str | None]:
    """Write a value that is within the limits as JSON that UTF-8 can encode.

    The second text is a note for people if something had to be written in another way.
    """
    note = None
    try:
        written = _DUMPED(value)
    except ValueError:
        written, note = _DUMPED(_finite(value)), TOO_LARGE
    if not _HALVES.search(written):
        return written, note
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", written), note or REPLACED


def is_short(written: str) -> bool:
    """Return whether a text can be handed on."""
    return len(written) <= MOST_CHARACTERS_SENT


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value
