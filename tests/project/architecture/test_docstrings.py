"""Docstrings begin with a sentence or an imperative, in words that people who run Kafka know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.project.architecture.docstrings import Docstring, docstrings, fault
from tests.project.architecture.sources import PROJECT_ROOT, python_files, shown

RETIRED = (
    "Somebody moves",
    "Take it out",
    "What is otherwise since",
    "nobody has taken note",
    "Largest inheritance",
    "Come again, at most",
    "Way back",
    "Records are kept",
    "it is this one that you mean",
    "Needed in sync",
    "Fold again",
    "Ask for a plan",
    "Ask again",
    "More than that:",
    "What it comes to",
    "set aside",
    "Set aside",
    "doomed",
    "Whereabouts",
)
"""Phrases for which Kafka, databases or other consoles have a standard term; none is to come back."""
READ = ("backend", "workers", "spark", "client", "frontend/templates", "frontend/static", "docs", "README.md")
"""Code, pages and documentation; decisions and the change log keep the words of their time."""


def texts_read() -> Iterator[tuple[str, str]]:
    """Yield (path, text) of code, templates, scripts and pages."""
    for place in READ:
        root = PROJECT_ROOT / place
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in {".py", ".html", ".js", ".md"} and "decisions" not in path.parts:
                yield shown(path), path.read_text()


def test_retired_phrases_do_not_come_back() -> None:
    found = [f"{path}: {phrase}" for path, text in texts_read() for phrase in RETIRED if phrase in text]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", sorted({shown(path).split("/")[0] for path in python_files()}))
def test_docstrings_begin_with_a_sentence(folder: str) -> None:
    found = [
        f"{each} ({wrong})" for path in python_files(folder) for each in docstrings(path) if (wrong := fault(each))
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
