"""The tour through the code names existing files and functions."""

from __future__ import annotations

import ast
import re

import pytest

from tests.project.architecture.sources import PROJECT_ROOT, parsed
from tests.project.docs.pages import DOCS

STOPS = re.findall(r"`([A-Za-z_.]+)` \(`([\w/]+\.py)`", (DOCS / "tour.md").read_text())


@pytest.mark.parametrize(("name", "file"), STOPS)
def test_a_stop_is_where_the_tour_says(name: str, file: str) -> None:
    *within, last = name.split(".")
    body: list[ast.stmt] = parsed(PROJECT_ROOT / file).body
    for outer in within:
        body = next(each.body for each in body if isinstance(each, ast.ClassDef) and each.name == outer)
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    assert last in {each.name for each in body if isinstance(each, kinds)}, f"{name} is not in {file}"


def test_the_tour_has_its_stops() -> None:
    assert len(STOPS) >= 12
