"""What is wrong with what was asked of a placement, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 5


class PlacementInvalid(ValueError):
    """The question makes no sense; the message says where, and what to do."""


def few(names: Sequence[object], count: int | None = None) -> str:
    """The first of them, and how many more there are; of `count` in all, if these are only some."""
    shown = names[:_NAMED]
    more = (len(names) if count is None else count) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {more} more" if more > 0 else "")
