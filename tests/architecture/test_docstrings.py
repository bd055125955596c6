"""Docstrings begin with a sentence or an imperative, in words that people who run Kafka know."""

from __future__ import annotations

import pytest

from tests.architecture.docstrings import Docstring, docstrings, fault
from tests.architecture.sources import PROJECT_ROOT, python_files, shown

TO_DO = tuple((PROJECT_ROOT / "tests/architecture/docstrings_to_do.txt").read_text().split())
"""Folders whose docstrings have not been rewritten yet. None is to be added."""


@pytest.mark.parametrize("folder", sorted({shown(path).split("/")[0] for path in python_files()}))
def test_docstrings_begin_with_a_sentence(folder: str) -> None:
    found = [
        f"{each} ({wrong})"
        for path in python_files(folder)
        if not shown(path).startswith(TO_DO)
        for each in docstrings(path)
        if (wrong := fault(each))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        ("FunctionDef", "Return the copy flags of a map record.", None),
        ("FunctionDef", "Concurrent callers share one read.", None),
        ("FunctionDef", "While nothing may be copied, wait.", None),
        ("ClassDef", "Progress grouped by outcome.", None),
        ("Field", "Milliseconds that a client waits.", None),
        ("FunctionDef", "Of the map's record.", "it begins with 'of', as a fragment or a riddle does"),
        ("FunctionDef", "It goes on.", "it begins with 'it', as a fragment or a riddle does"),
        ("FunctionDef", "In place of `copy_batch`.", "it begins with 'in' and has no main clause"),
        ("FunctionDef", "The leases that somebody has.", "it has no main verb"),
        ("FunctionDef", "Return what\nwaits.", "its first line does not end in a full stop"),
        ("Field", "Milliseconds", "its first paragraph does not end in a full stop"),
    ],
)
def test_a_first_line_is_judged(kind: str, text: str, wrong: str | None) -> None:
    assert fault(Docstring(PROJECT_ROOT / "backend/cli.py", 1, kind, text)) == wrong
