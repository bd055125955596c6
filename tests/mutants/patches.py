"""Read the patches: each is one mutant, tests/mutants/<room>/<what it breaks>.patch.

Above the diff stand two fields, each of one or more lines, of which all but the first are indented:

    Promise: docs/distribution.md: a record never returns to where it came from.
    Caught by: tests/unit/distribution/test_copy_flags.py

A diff has one line of context (`git diff -U1`), so that it survives changes nearby.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROJECT = FOLDER.parent.parent

_PROMISE, _CAUGHT_BY = "Promise", "Caught by"
_FIELD = re.compile(r"^(?P<name>[A-Z][a-z ]+): (?P<text>.+(?:\n[ \t]+.+)*)", re.MULTILINE)
_CHANGED = re.compile(r"^\+\+\+ b/(.+)$", re.MULTILINE)


class MutantMalformed(ValueError):
    """A patch lacks a field or its diff. The text names the patch and what is missing."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mutant, as its patch describes it."""

    path: Path
    page: str
    """Page of the docs that makes the promise, relative to the checkout."""
    promise: str
    caught_by: tuple[str, ...]
    """Files or node ids of tests that fail with it, relative to the checkout."""
    changes: tuple[str, ...]
    """Files of the product that the patch changes."""

    @property
    def name(self) -> str:
        """Return `<room>/<what it breaks>`."""
        return str(self.path.relative_to(FOLDER).with_suffix(""))


def read(path: Path) -> Mutant:
    """Read one patch. Raises MutantMalformed."""
    head, found, diff = path.read_text().partition("\ndiff --git ")
    fields = {each["name"]: " ".join(each["text"].split()) for each in _FIELD.finditer(head)}
    if missing := [name for name in (_PROMISE, _CAUGHT_BY) if name not in fields]:
        raise MutantMalformed(f"{path}: no line begins with {missing[0]!r} and a colon, above the diff")
    if not found:
        raise MutantMalformed(f"{path}: no diff follows; make one with: git diff -U1")
    page, _, promise = fields[_PROMISE].partition(": ")
    if not promise:
        raise MutantMalformed(f"{path}: the promise names no page: 'docs/PAGE.md: WORDS' is expected")
    return Mutant(
        path=path,
        page=page,
        promise=promise,
        caught_by=tuple(fields[_CAUGHT_BY].split()),
        changes=tuple(_CHANGED.findall(diff)),
    )


def read_all() -> list[Mutant]:
    """Read every patch, in the order of their names. Raises MutantMalformed."""
    return [read(path) for path in sorted(FOLDER.glob("*/*.patch"))]
