"""Wrapping of long names in tables, so that none pushes another column out of sight.

Kafka allows names of 249 characters, and a stream's full name has four parts. A cell breaks only where a word is
longer than `LONGEST_WHOLE`: shorter names, numbers and times stay on one line. This is done on the finished page,
so that it applies to every table, whoever writes its template.
"""

from __future__ import annotations

import re

LONGEST_WHOLE = 32

_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
# Elements whose content is no flowing text come first, then what is marked already, then tags, then long words.
# Short words are matched as wholes, or the search would begin anew at each of their letters.
_PIECE = re.compile(
    r'<(svg|textarea|option|pre|title)\b.*?</\1>|<span class="long">[^<]*</span>|<[^>]*>|([^<\s]{'
    + str(LONGEST_WHOLE + 1)
    + r",})|[^<\s]+",
    re.DOTALL,
)
_LINES_OF_TEXT = re.compile(r'<table[^>]*class="[^"]*\bdiff\b')


def wrapping(page: str) -> str:
    """Return a page, or a block of one, with long words in tables marked as ones that may wrap."""
    return _TABLE.sub(_table, page)


def _table(found: re.Match[str]) -> str:
    table = found[0]
    return table if _LINES_OF_TEXT.match(table) else _PIECE.sub(_piece, table)


def _piece(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'<span class="long">{found[2]}</span>'
