"""Short JSON, read in one step: what most values of most streams are, and all that a search reads of them.

The reader is the one that Pydantic has for JSON, which takes a third of the time of Python's own. It is used where
both return the same; everything else is left to `fields.decoded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from backend.messages.decoding.bounds import MOST_LEVELS, EvaluationFailed, has_more_levels
from backend.messages.decoding.comparisons import NOTHING

MOST_BYTES = 4_096
"""Bytes of the largest value that is read: whatever is in them, they become little."""
_STARTS = frozenset((b"{", b"["))


def read(data: bytes) -> Any:
    """Return the value of a short JSON object or array; NOTHING for what has to be decoded."""
    if len(data) > MOST_BYTES or data[:1] not in _STARTS:
        return NOTHING
    try:
        # Keys repeat from value to value; other texts rarely do.
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return NOTHING
    # What is nested deeper is not taken for JSON; a level has two brackets.
    if len(data) > 2 * MOST_LEVELS and data.count(b"{") + data.count(b"[") > MOST_LEVELS:
        return NOTHING if has_more_levels(value, MOST_LEVELS) else value
    return value


def rejects(holds: Callable[[Any], bool], data: bytes) -> bool:
    """Return whether a value is short JSON for which an expression does not hold."""
    value = read(data)
    try:
        return value is not NOTHING and not holds(value)
    except (EvaluationFailed, RecursionError):
        return False
