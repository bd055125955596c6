"""Regular expressions of JSONPath's `match` and `search`, with a time limit.

They are I-Regexp (RFC 9485) and whatever else the package `regex` takes, such as `\\d`. The package iregexp-check,
by which jsonpath-rfc9535 takes I-Regexp only, refuses counts of two digits. A pattern may come from a record, too,
as in `match($.name, $.pattern)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import regex

from backend.messages.decoding.bounds import EvaluationFailed

MATCH_SECONDS = 0.5
"""Processor time for one text; backtracking may otherwise take years."""
MOST_CHARACTERS = 1_000
"""Most characters of a pattern."""
_CACHED = 16
_SHORT = 256
"""Characters of a text on which a plain pattern needs no watch, which takes longer than most texts: 2 µs."""
_MOST_PLAIN = 100
"""Characters of a plain pattern."""
_PLAIN = r"(?:[^\\(){}*+?]|\\[dDsSwW.-])*"
_PLAIN_PATTERN = re.compile(f"{_PLAIN}[*+?]?{_PLAIN}", re.DOTALL)


class PatternInvalid(Exception):
    """A constant is no regular expression; the message says so."""


def pattern_test(function: str, constant: Any = None, *, is_constant: bool = False) -> Callable[[Any, Any], bool]:
    """Return the test of a text by a pattern: `match` for the whole text, `search` for a part of it.

    With a constant, that is the pattern, and the argument is ignored. The test is false if one of the two is not a
    string, or the pattern is invalid. It raises EvaluationFailed. Raises PatternInvalid for a constant string.
    """
    if not is_constant:
        return lambda text, pattern: _found(function, _pattern(pattern), text)
    known = _pattern(constant)
    if known is None and isinstance(constant, str):
        raise PatternInvalid("the pattern is not a regular expression of up to 1,000 characters")
    if known is None or not is_plain(constant):
        return lambda text, _pattern: _found(function, known, text)
    matches = known.fullmatch if function == "match" else known.search
    return lambda text, _pattern: (
        matches(text) is not None
        if isinstance(text, str) and len(text) <= _SHORT
        else _found(function, known, text)
    )


def is_plain(pattern: str) -> bool:
    """Return whether a pattern is short, repeats at most one character or class, and has no groups.

    At each character of a text where it begins, it goes back to each later one once.
    """
    return len(pattern) <= _MOST_PLAIN and _PLAIN_PATTERN.fullmatch(pattern) is not None


def _found(function: str, pattern: regex.Pattern[str] | None, text: Any) -> bool:
    if pattern is None or not isinstance(text, str):
        return False
    matches = pattern.fullmatch if function == "match" else pattern.search
    try:
        # Other threads go on meanwhile, if it takes long.
        return matches(text, timeout=MATCH_SECONDS, concurrent=len(text) > _SHORT) is not None
    except TimeoutError:
        raise EvaluationFailed(f"The regular expression takes longer than {MATCH_SECONDS:g} s on it.") from None


def _pattern(text: Any) -> regex.Pattern[str] | None:
    return _compiled(text) if isinstance(text, str) and len(text) <= MOST_CHARACTERS else None


@lru_cache(_CACHED)
def _compiled(text: str) -> regex.Pattern[str] | None:
    try:
        return regex.compile(_translated(text), cache_pattern=False)
    except (regex.error, RecursionError, ValueError, OverflowError):
        return None


def _translated(text: str) -> str:
    """Return a pattern in the syntax of `regex`, where a dot is another set of characters (RFC 9485, 5.3)."""
    parts: list[str] = []
    in_class = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ".":
            character = "." if in_class else r"[^\n\r]"
        elif character in "[]":
            in_class = character == "["
        parts.append(character)
    return "".join(parts)
