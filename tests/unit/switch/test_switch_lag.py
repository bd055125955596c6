"""Number of records that a target lacks, computed from positions and vectors."""

from __future__ import annotations

import pytest

from backend.domain.records.marks import Mark, Position
from backend.domain.switch.switch_lag import lacking


def mark(seen: dict[int, tuple[int, int]], incarnation: int = 1) -> Mark:
    return Mark(incarnation, 1, seen, {})


@pytest.mark.parametrize(
    ("outgoing", "covered", "found"),
    [
        ([], [], 30),
        ([Position(40, mark({2: (1, 39)}))], [{2: (1, 39)}], 0),
        ([Position(40, mark({2: (1, 39)}))], [{2: (1, 29)}, {2: (1, 34)}], 5),
        # The furthest counts, and what lies behind it.
        ([Position(35, mark({2: (1, 34)})), Position(20, mark({2: (1, 19)}))], [{2: (1, 34)}], 5),
        # What came from the target is there, what came from elsewhere may not be.
        ([Position(40, mark({2: (1, 39), 4: (1, 99), 5: (1, 9)}))], [{2: (1, 39), 5: (1, 6)}], 3),
        # A topic that was made anew on an origin has started again: nobody knows how far it had come before.
        ([Position(40, mark({2: (1, 39), 5: (2, 6)}))], [{2: (1, 39), 5: (1, 90)}], 30),
        # A position in a log that is no more says nothing.
        ([Position(40, mark({2: (3, 39)}, incarnation=3))], [{2: (3, 39)}], 30),
        ([Position(90, mark({2: (1, 89)}))], [{2: (1, 89)}], 30),
        # Never more than the log has.
        ([Position(40, mark({5: (1, 10_000)}))], [], 30),
    ],
)
def test_what_a_target_lacks_lies_between_two_vectors_and_behind_a_position(outgoing, covered, found) -> None:
    incarnations = ((0, 1),)
    assert (
        lacking(low=10, end=40, incarnations=incarnations, outgoing=outgoing, covered=covered, target_number=4)
        == found
    )
