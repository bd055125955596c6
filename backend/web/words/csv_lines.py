"""CSV that spreadsheets open without harm."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Return the rows as lines of CSV."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def cell(name: str | None) -> str:
    """Return a name that an application chose so that a spreadsheet takes it for text, never for a formula."""
    name = name or ""
    return f"'{name}" if name.startswith(_FORMULA) else name
