"""In-memory equivalent of how the table of marks merges new ones."""

from __future__ import annotations

from collections.abc import Sequence

from backend.domain.records.log_index import Mark


def joined(marks: Sequence[Mark], new: Sequence[Mark]) -> list[Mark]:
    """Return one row of marks from both; where both have a mark, the one with more facts."""
    found = {mark.first: mark for mark in marks}
    for mark in new:
        if mark.last is not None or mark.first not in found:
            found[mark.first] = mark
    return [found[first] for first in sorted(found)]
