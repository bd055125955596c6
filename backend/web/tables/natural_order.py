"""The order of a column's values: names as people count, numbers by size, unknown values last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

Value = str | float | bool | datetime | tuple[Any, ...] | None
"""A cell's value; a tuple is the key of a text by `natural`, where it has been computed before."""
Row = TypeVar("Row")

_DIGITS = re.compile(r"([0-9]+)")


def natural(text: str) -> tuple[Any, ...]:
    """Return a key that sorts `c2` before `c10`, whatever the case of letters."""
    parts = _DIGITS.split(text.casefold())
    # Digits are compared by their number without parsing it: Python refuses to parse very long ones.
    return tuple(_number(part) if index % 2 else part for index, part in enumerate(parts))


def _number(digits: str) -> tuple[int, str]:
    significant = digits.lstrip("0")
    return len(significant), significant


def is_unknown(value: Value) -> bool:
    """Return whether a value is sorted last in both directions."""
    return value is None or value == ""


def ordered(rows: Iterable[Row], value: Callable[[Row], Value], *, descending: bool) -> list[Row]:
    """Return the rows by a value; rows of equal values keep their order, and unknown values come last."""
    known: list[tuple[Any, Row]] = []
    unknown: list[Row] = []
    for row in rows:
        found = value(row)
        if is_unknown(found):
            unknown.append(row)
        else:
            known.append((_key(found), row))
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return [*(row for _, row in known), *unknown]


def _key(value: Value) -> tuple[int, Any]:
    """Return a key that can be compared with the key of any other value: numbers, times, then texts."""
    if isinstance(value, datetime):
        return 1, value.timestamp()
    if isinstance(value, str):
        return 2, natural(value)
    if isinstance(value, tuple):
        return 2, value
    return 0, value
