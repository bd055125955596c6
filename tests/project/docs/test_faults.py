"""The table of faults names the command that runs their tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.project.docs.pages import pages

PAGE = pages()[0].parents[1] / "docs" / "faults.md"
ROW = re.compile(r"^\| (?P<fault>[^|]+) \| (?P<files>[^|]+) \| (?P<by>[^|]+) \|$", re.MULTILINE)
BY = {False: "make test", True: "make nightly"}


def rows() -> list[tuple[str, list[Path], set[str]]]:
    """Return (fault, files of its tests, commands) of each line of the table."""
    table = PAGE.read_text().partition("## Results of one run")[0]
    found = []
    for row in ROW.finditer(table):
        folder, names = row["files"].split(":") if ":" in row["files"] else ("`tests/faults`", row["files"])
        files = [PAGE.parents[1] / folder.strip("` ") / name for name in re.findall(r"`([\w/]+\.py)`", names)]
        if files:
            found.append((row["fault"], files, {name for name in BY.values() if name in row["by"]}))
    return found


def run_by(file: Path) -> set[str]:
    """Return the commands that run tests of a file, by their marks."""
    module = ast.parse(file.read_text())
    tests = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
    if any(ast.unparse(each) == "pytestmark = pytest.mark.nightly" for each in module.body):
        return {BY[True]}
    found = set()
    for test in tests:
        marks = [ast.unparse(each) for each in test.decorator_list]
        found |= {BY["pytest.mark.nightly" in marks]}
        found |= {BY[True] for mark in marks if "marks=pytest.mark.nightly" in mark}
    return found


@pytest.mark.parametrize(("fault", "files", "by"), rows(), ids=lambda each: each if isinstance(each, str) else "")
def test_each_fault_is_run_by_what_the_table_says(fault: str, files: list[Path], by: set[str]) -> None:
    assert by, f"{fault}: say which command runs it"
    for file in files:
        assert by <= run_by(file), f"{fault}: {file.name} is run by {run_by(file)}"


def test_all_files_of_faults_are_in_the_table() -> None:
    folder = PAGE.parents[1] / "tests" / "faults"
    named = {file for _, files, _ in rows() for file in files}
    whole_estates = {
        folder / "small" / f"test_{each}.py" for each in ("estate_running", "up_and_down", "registry_outages")
    }
    assert set(folder.rglob("test_*.py")) - named == whole_estates
