"""CSV that spreadsheets open without harm.

A spreadsheet evaluates a text that begins like a formula, which may fetch addresses or start programs. Some
separate cells by semicolons as well, so such a beginning counts in the middle of a text, too. After an apostrophe
they leave it a text. Numbers stay numbers, negative ones, too.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = re.compile(r"(^|;)\s*[=+\-@]|^[\t\r\n]")
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?")


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Return the rows as lines of CSV; None is an empty cell, and lists and objects are JSON."""
    text = io.StringIO()
    csv.writer(text).writerows([_cell(each) for each in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool | list | tuple | dict):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and _FORMULA.search(value) and _NUMBER.fullmatch(value) is None:
        return f"'{value}"
    return value
