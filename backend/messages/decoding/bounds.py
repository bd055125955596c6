"""Limits of decoding, which hold for every format, and the error of a record that exceeds one."""

from __future__ import annotations

from typing import Any

MOST_LEVELS = 100
"""Most nested objects and arrays of a value: readers of JSON have limits of their own."""
MOST_PARTS = 250_000
"""Most values within a decoded Avro or Protobuf value: half a second of decoding, and 30 MB."""
CHARACTERS_A_PART = 64
"""Characters of a schema's names that count as one value: a byte may stand for a name of a million of them."""
MOST_PARTS_SENT = 100_000
"""Most values within one that is handed on as JSON, since each costs the receiver 100 bytes."""
MOST_CHARACTERS_SENT = 24 * 1024 * 1024
"""Most characters of a decoded value."""


class Undecodable(Exception):
    """Bytes are no value of their format, or beyond a limit; the message continues a sentence that begins "It"."""


class EvaluationFailed(Exception):
    """An expression has no result for a value within the limits; the message says why, as a sentence."""


def too_many_levels() -> Undecodable:
    """Return the error of a value that is nested too deeply."""
    return Undecodable(f"is nested deeper than {MOST_LEVELS} levels")


def too_many_parts() -> Undecodable:
    """Return the error of a value that consists of too many."""
    return Undecodable(f"consists of more than {MOST_PARTS:,} values")


def ends_early() -> Undecodable:
    """Return the error of bytes that end within a value."""
    return Undecodable("ends too early")


def has_more_levels(value: Any, most: int) -> bool:
    """Return whether objects and arrays are nested deeper than this."""
    level = [value]
    for _ in range(most):
        level = [inner for outer in level for inner in _within(outer) if type(inner) in (dict, list)]
        if not level:
            return False
    return True


def has_more_parts(value: Any, most: int) -> bool:
    """Return whether there are more values than this within a value, itself included."""
    count, waiting = 1, [value]
    while waiting:
        inner = _within(waiting.pop())
        count += len(inner)
        if count > most:
            return True
        waiting += [each for each in inner if type(each) in (dict, list)]
    return False


def _within(value: Any) -> Any:
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()
