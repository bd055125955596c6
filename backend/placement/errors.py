"""The error for invalid placement requests, and how its messages list names."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 5


class PlacementInvalid(ValueError):
    """The request is invalid; the message says where and how to correct it."""


def few(names: Sequence[object], count: int | None = None) -> str:
    """List the first names and say how many more there are, of `count` in all if `names` is only an excerpt."""
    shown = names[:_NAMED]
    more = (len(names) if count is None else count) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {more} more" if more > 0 else "")
