"""Arithmetic on figures that may be unknown (None)."""

from __future__ import annotations

from collections.abc import Iterable


def total(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None if any figure is unknown."""
    found = 0
    for each in figures:
        if each is None:
            return None
        found += each
    return found
