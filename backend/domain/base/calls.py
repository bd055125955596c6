"""Replacement of the REST calls that messages advise by their equivalent in the console or the command line.

A message is written once, where the failure is found, and names a REST call: "GET /clusters lists them". Console
and command line each replace the calls for which they have an equivalent; other calls stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_CALL = re.compile(r"\b(GET|PUT|POST|PATCH|DELETE) (?:/api/v1)?(/[\w/-]*\w)")

Ways = Sequence[tuple[str, str]]
"""(Pattern of a whole call, replacement), in which \\1 is the pattern's first group."""


def said_otherwise(text: str, ways: Ways) -> str:
    """Return the text with each known call replaced."""

    def instead(found: re.Match[str]) -> str:
        call = f"{found[1]} {found[2]}"
        known = ((re.fullmatch(pattern, call), words) for pattern, words in ways)
        return next((match.expand(words) for match, words in known if match), found[0])

    return _CALL.sub(instead, text)
