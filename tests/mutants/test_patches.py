"""Mutants stay fit for use: each applies to the checkout, names a page of the docs, and tests that there are."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.mutants.patches import PROJECT, Mutant, MutantMalformed, read, read_all

MUTANTS = read_all()
NIGHTLY = "pytest.mark.nightly"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_names_a_page_and_tests_that_there_are(mutant: Mutant):
    words = ["git", "apply", "--check", "--unidiff-zero", str(mutant.path)]
    applies = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True)
    assert applies.returncode == 0, f"make it anew: {applies.stderr}"
    assert (PROJECT / mutant.page).is_file()
    assert mutant.changes
    assert not any(name.startswith(("tests/", "docs/")) for name in mutant.changes), "the product is what changes"
    for node in mutant.caught_by:
        file, _, rest = node.partition("::")
        function = rest.partition("[")[0].rpartition("::")[2]
        parsed = ast.parse((PROJECT / file).read_text())
        functions = {each.name for each in ast.walk(parsed) if isinstance(each, ast.FunctionDef)}
        assert not function or function in functions, f"{file} has no {function}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_tests_of_make_test(mutant: Mutant):
    assert [node for node in mutant.caught_by if not is_nightly(node)], "make nightly alone would catch it"


def is_nightly(node: str) -> bool:
    """Tell whether a test, or each test of a file, is marked nightly as a whole; parameters are not looked at."""
    file, _, rest = node.partition("::")
    function = rest.partition("[")[0].rpartition("::")[2]
    module = ast.parse((PROJECT / file).read_text())
    if any("pytestmark" in ast.unparse(each) and NIGHTLY in ast.unparse(each) for each in module.body):
        return True
    tests = [each for each in ast.walk(module) if isinstance(each, ast.FunctionDef) and each.name == function]
    return bool(tests) and all(NIGHTLY in map(ast.unparse, each.decorator_list) for each in tests)


def test_each_mutant_breaks_something_of_its_own():
    diffs = [each.path.read_text().partition("\ndiff --git ")[2] for each in MUTANTS]
    assert len(set(diffs)) == len(diffs)
    assert len({each.promise for each in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Caught by: a.py\n\ndiff --git a/x b/x", "'Promise'"),
        ("Promise: docs/a.md: it is.\n\ndiff --git a/x b/x", "'Caught by'"),
        ("Promise: it is.\nCaught by: a.py\n\ndiff --git a/x b/x", "names no page"),
        ("Promise: docs/a.md: it is.\nCaught by: a.py\n", "no diff follows"),
    ],
)
def test_a_patch_that_says_too_little_is_refused(tmp_path: Path, text: str, said: str):
    path = tmp_path / "spoilt.patch"
    path.write_text(text)
    with pytest.raises(MutantMalformed, match=said):
        read(path)


def test_fields_may_have_several_lines(tmp_path: Path):
    path = tmp_path / "long.patch"
    fields = "Promise: docs/a.md: it is\n  so.\nCaught by: a.py\n  b.py::test_c\n"
    path.write_text(f"{fields}\ndiff --git a/x b/x\n+++ b/x\n")
    mutant = read(path)
    assert (mutant.page, mutant.promise) == ("docs/a.md", "it is so.")
    assert (mutant.caught_by, mutant.changes) == (("a.py", "b.py::test_c"), ("x",))
