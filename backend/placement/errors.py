"""What is wrong with what was asked of a placement, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 5


class PlacementInvalid(ValueError):
    """The question makes no sense; the message says where, and what to do."""


def few(names: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(map(str, names[:_NAMED]))
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
