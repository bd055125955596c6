"""States of distributors, in the order in which they matter."""

from __future__ import annotations

from collections.abc import Iterable

UNOBSERVED = "unobserved"
"""No task has reported yet."""
WORST_FIRST = (
    "blocked",
    "degraded",
    "late",
    "pausing",
    "paused",
    "starting",
    "stopped",
    "running",
    UNOBSERVED,
)
"""`late` runs, but not in time. A task that starts explains one that has stopped: another worker takes it over."""
_RANKS = {state: rank for rank, state in enumerate(WORST_FIRST)}


def worst(states: Iterable[str], default: str = UNOBSERVED) -> str:
    """Return the worst of these states; `default` if there is none.

    A state that only a newer program knows counts as the least: both run while one is replaced by the other.
    """
    return min(states, key=lambda state: _RANKS.get(state, len(_RANKS)), default=default)
