"""Figures that may not be known (None)."""

from __future__ import annotations

from collections.abc import Iterable


def total(figures: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is not known: then nobody knows the sum."""
    found = 0
    for each in figures:
        if each is None:
            return None
        found += each
    return found
