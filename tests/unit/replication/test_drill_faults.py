"""Schedules are carried out in the order of their times, and only those that make sense."""

from __future__ import annotations

import pytest

from tests.support.drills.faults import Fault, in_order


@pytest.mark.parametrize(
    "schedule",
    [
        [Fault(1, "restart", 1)],
        [Fault(1, "resume", 1)],
        [Fault(1, "crash", 1), Fault(2, "pause", 1)],
        [Fault(1, "pause", 1), Fault(2, "restart", 1)],
        [Fault(2, "crash", 1), Fault(1, "crash", 1)],
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(schedule: list[Fault]):
    with pytest.raises(ValueError, match="the broker is"):
        in_order(schedule)


def test_faults_come_by_their_times():
    late, early, then = Fault(5, "crash", 1), Fault(1, "pause", 1), Fault(5, "restart", 1)
    assert in_order([late, early, then]) == [early, late, then]
