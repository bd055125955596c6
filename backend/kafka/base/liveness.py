"""Liveness reports of a session to its host."""

from __future__ import annotations

from typing import Protocol

LONGEST_STEP_SECONDS = 20.0
"""Longer than the longest wait of a session, 15 s for the end of a transaction."""


class Alive(Protocol):
    """Called before every step that waits for a cluster.

    The next call comes within `within_seconds`; otherwise the step hangs, although its time has a limit.
    """

    def __call__(self, within_seconds: float = LONGEST_STEP_SECONDS) -> None: ...


def no_watchdog(within_seconds: float = LONGEST_STEP_SECONDS) -> None:
    """Ignore the reports, for a session that no host watches."""
