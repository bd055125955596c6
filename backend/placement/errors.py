"""What is wrong with what was asked of a placement."""

from __future__ import annotations


class PlacementInvalid(ValueError):
    """The question makes no sense; the message says where, and what to do."""
