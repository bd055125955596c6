"""How a session tells its host that it is alive."""

from __future__ import annotations

from typing import Protocol

LONGEST_STEP_SECONDS = 20.0
"""Longer than the longest wait that a session asks for, 15 s for the end of a transaction."""


class Alive(Protocol):
    """Called before every step that waits for a cluster: the next call comes within so many seconds, or the step
    hangs although it promised to end."""

    def __call__(self, within_seconds: float = LONGEST_STEP_SECONDS) -> None: ...


def nobody_asks(within_seconds: float = LONGEST_STEP_SECONDS) -> None:
    """For a session whose end nobody waits for."""
