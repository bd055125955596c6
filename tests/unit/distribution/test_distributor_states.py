"""States of distributors: which of several is the worst."""

from __future__ import annotations

import pytest

from backend.domain.distribution.distributor_states import WORST_FIRST, worst
from backend.domain.overview.distributor_problems import _STATES
from backend.domain.overview.problems import Kind


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["running", "blocked", "paused"], "blocked"),
        (["starting", "stopped", "paused"], "stopped"),
        (["running", "late"], "late"),
        (["running", "unobserved"], "running"),
        ([], "unobserved"),
    ],
)
def test_the_worst_state_is_told(states: list[str], expected: str) -> None:
    assert worst(states) == expected


def test_states_that_are_problems_come_before_those_that_are_none() -> None:
    are_problems = [_STATES[each].kind is not Kind.INFORMATION for each in WORST_FIRST if each in _STATES]
    assert are_problems == sorted(are_problems, reverse=True)
