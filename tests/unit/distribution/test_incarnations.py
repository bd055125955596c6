"""Facts known of records before an offset, without a check that they still exist."""

from __future__ import annotations

import pytest

from backend.domain.records.incarnations import passed

CUT = ((0, 1), (80, 2))


@pytest.mark.parametrize(
    ("incarnations", "offset", "vector", "known"),
    [
        (((0, 1),), 40, {1: (1, 30), 2: (1, 90)}, {1: (1, 39)}),
        (((0, 1),), 40, {1: (1, 39)}, {}),
        (((0, 1),), 40, {2: (1, 30)}, {1: (1, 39)}),
        (CUT, 60, {}, {1: (1, 59)}),
        # Of earlier ones nobody knows what was lost.
        (((0, 2),), 40, {}, {}),
        (((0, 2),), 40, {1: (1, 90)}, {}),
        (((0, 2),), 40, {1: (2, 30)}, {1: (2, 39)}),
        (((0, 1),), 0, {}, {}),
        ((), 40, {1: (1, 30)}, {}),
        # What was born before the cut, and after it, has other numbers.
        (CUT, 80, {1: (1, 30)}, {1: (1, 79)}),
        (CUT, 90, {1: (1, 79)}, {}),
        (CUT, 90, {1: (2, 82)}, {1: (2, 89)}),
    ],
)
def test_what_was_born_before_an_offset(incarnations, offset, vector, known):
    assert passed(1, incarnations, offset, vector) == known
