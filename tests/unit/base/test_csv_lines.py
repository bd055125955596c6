"""Cells of CSV that no spreadsheet evaluates, and numbers that it still adds up."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from backend.csv_lines import csv_lines


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30 1234", "'+49 30 1234"),
        ("-cmd", "'-cmd"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\ronly", "'\ronly"),
        ("\nonly", "'\nonly"),
        ("  =1", "'  =1"),
        ("a;=1", "'a;=1"),
        ({"a": ";@b"}, '\'{"a": ";@b"}'),
        ("a=1", "a=1"),
        ("", ""),
        (None, ""),
        (-5, "-5"),
        (-0.5, "-0.5"),
        ("-5", "-5"),
        ("-1.5e-7", "-1.5e-7"),
        ("-5+cmd", "'-5+cmd"),
        (True, "true"),
        ([-1, {"ö": None}], '[-1, {"ö": null}]'),
    ],
)
def test_a_cell_is_no_formula_and_a_number_stays_one(value: Any, cell: str) -> None:
    assert list(csv.reader(io.StringIO(csv_lines([["before", value]]), newline=""))) == [["before", cell]]


def test_lines_end_as_the_format_wants_it() -> None:
    assert csv_lines([["a", "b"], [1, 'say "x", y']]) == 'a,b\r\n1,"say ""x"", y"\r\n'
