"""Check the form of docstrings: a first line that is a sentence or an imperative and ends in a full stop.

Functions need a main verb. A class, a module and a field may be described by a noun phrase, such as "Progress
grouped by outcome."; no docstring begins with a fragment ("Of the map's record.") or a pronoun.
The verbs are those of `verbs.txt`, one infinitive a line.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.project.architecture.sources import parsed, shown


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FRAGMENTS = _words(
    """
    also and but else everybody he his how it its nobody nor of or she so somebody something that their
    them these they this those what whatever whether which who whoever whom whose why
    """
)
"""First words that begin a fragment, or that stand for a noun that the reader has not seen."""
CLAUSES = _words(
    """
    after as at before behind below beside between beyond by during for from if in inside instead into
    on once outside over per since though through to under unless until up when where wherever while
    with within without
    """
)
"""First words of an adverbial: a sentence with one has its main clause after a comma."""
RELATIVE = _words(
    """
    because how if that unless until what when where whether which while who whom whose why
    """
)
"""Words that begin a clause with a verb of its own."""
AUXILIARIES = _words(
    """
    are aren't be can can't cannot could did didn't do does doesn't don't had has have is isn't may
    might must should was wasn't were weren't will won't would
    """
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_CODE = re.compile(r"``?[^`]*``?")
_END_OF_SENTENCE = re.compile(r"[.!?](?:\s|$)")


@dataclass(frozen=True)
class Docstring:
    """A docstring of the project. `kind` is Module, ClassDef, FunctionDef, AsyncFunctionDef or Field."""

    path: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}: {self.text.splitlines()[0]}"


@cache
def verbs() -> frozenset[str]:
    """Return the infinitives that count as verbs."""
    return frozenset((Path(__file__).parent / "verbs.txt").read_text().split())


@cache
def finite() -> frozenset[str]:
    """Return the forms that a main verb can have: infinitive, third person, simple past."""
    found = set(AUXILIARIES)
    for verb in verbs():
        found |= {verb, f"{verb}s", f"{verb}es", f"{verb}ed", f"{verb}d", f"{verb}{verb[-1]}ed"}
        if verb.endswith("y"):
            found |= {f"{verb[:-1]}ies", f"{verb[:-1]}ied"}
    return frozenset(found)


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yield the docstrings of a file: of the module, of its classes, functions and fields."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield Docstring(path, node.body[0].lineno, type(node).__name__, text)
        body = getattr(node, "body", None)
        if not isinstance(body, list) or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for before, after in itertools.pairwise(body):
            if not isinstance(before, (ast.Assign, ast.AnnAssign)) or not isinstance(after, ast.Expr):
                continue
            if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                yield Docstring(path, after.lineno, "Field", after.value.value.strip())


def fault(docstring: Docstring) -> str | None:
    """Say what is wrong with a docstring's first line; None if nothing is."""
    paragraph = " ".join(docstring.text.split("\n\n")[0].split())
    first_line = docstring.text.splitlines()[0].rstrip()
    if docstring.kind == "Field":
        if not paragraph.endswith((".", ":", "?")):
            return "its first paragraph does not end in a full stop"
    elif not first_line.endswith((".", ":", "?")):
        return "its first line does not end in a full stop"
    ended = _END_OF_SENTENCE.search(_CODE.sub(lambda code: "x" * len(code[0]), paragraph))
    sentence = paragraph[: ended.start()] if ended else paragraph
    words = [word.lower() for word in _WORD.findall(_CODE.sub(" CODE ", sentence))]
    if not words:
        return "it has no words"
    if words[0] in FRAGMENTS:
        return f"it begins with '{words[0]}', as a fragment or a riddle does"
    if words[0] in CLAUSES and "," not in sentence:
        return f"it begins with '{words[0]}' and has no main clause"
    if docstring.kind in {"FunctionDef", "AsyncFunctionDef"} and not has_main_verb(words):
        return "it has no main verb"
    return None


def has_main_verb(words: list[str]) -> bool:
    """Tell whether a sentence has a verb of its own, besides those of its relative clauses."""
    if words[0] in verbs():
        return True
    clauses = sum(word in RELATIVE for word in words[1:])
    return sum(word in finite() for word in words[1:]) > clauses
