"""Calls of the REST API that messages advise, said to those who ask in another way.

A message is written once, where it is found out, and names a call: "GET /clusters lists them". Console and command
line each know what leads to the same there, and say that instead; what they do not know stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_CALL = re.compile(r"\b(GET|PUT|POST|PATCH|DELETE) (?:/api/v1)?(/[\w/-]*\w)")

Ways = Sequence[tuple[str, str]]
"""(pattern of a whole call, what is said instead), in which \\1 is the pattern's first group."""


def said_otherwise(text: str, ways: Ways) -> str:
    """The text with each call that is known replaced."""

    def instead(found: re.Match[str]) -> str:
        call = f"{found[1]} {found[2]}"
        known = ((re.fullmatch(pattern, call), words) for pattern, words in ways)
        return next((match.expand(words) for match, words in known if match), found[0])

    return _CALL.sub(instead, text)
