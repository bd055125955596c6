"""States of distributors, in the order in which they matter."""

from __future__ import annotations

from collections.abc import Iterable

UNOBSERVED = "unobserved"
"""No task has reported yet."""
WORST_FIRST = (
    "blocked",
    "degraded",
    "late",
    "stopped",
    "pausing",
    "paused",
    "starting",
    "running",
    UNOBSERVED,
)
"""First those that are problems, then those that a person or a start explains; `late` runs, but not in time."""


def worst(states: Iterable[str], default: str = UNOBSERVED) -> str:
    """Return the worst of these states; `default` if there is none."""
    return min(states, key=WORST_FIRST.index, default=default)
