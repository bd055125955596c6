"""States of distributors: which of several is the worst."""

from __future__ import annotations

import pytest

from backend.domain.distribution.distributor_states import worst


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["running", "blocked", "paused"], "blocked"),
        (["starting", "stopped"], "starting"),
        (["running", "stopped", "of a newer program"], "stopped"),
        (["of a newer program"], "of a newer program"),
        (["running", "late"], "late"),
        (["running", "unobserved"], "running"),
        ([], "unobserved"),
    ],
)
def test_the_worst_state_is_told(states: list[str], expected: str) -> None:
    assert worst(states) == expected
