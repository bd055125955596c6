"""Leases that last longer as renewals get late, and no longer than that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backend.domain.distribution.lease_length import GAPS_OUTLASTED, LeaseLength

BASE, LONGEST = 6.0, 60.0
GAPS = st.floats(0, 1000)


def length(*gaps: float) -> LeaseLength:
    found = LeaseLength(BASE, LONGEST)
    for gap in gaps:
        found.renewed(gap)
    return found


def test_renewals_in_time_leave_the_base():
    calm = length(*[1.1] * 50)
    assert (calm.seconds(), calm.grace_seconds(), calm.is_late()) == (BASE, 0, False)


def test_a_late_renewal_gives_leases_that_outlast_three_such_gaps():
    late = length(1, 7)
    assert late.seconds() == GAPS_OUTLASTED * 7
    assert (late.grace_seconds(), late.is_late()) == (late.seconds() - BASE, True)


def test_one_that_is_overdue_is_late_before_it_comes():
    assert length(1).seconds(7) == GAPS_OUTLASTED * 7 and length(1).is_late(7)


@given(st.lists(GAPS), GAPS)
def test_the_length_is_bounded_and_outlasts_the_last_gap(gaps, last):
    found = length(*gaps, last).seconds()
    assert BASE <= found <= LONGEST
    assert found >= min(GAPS_OUTLASTED * last, LONGEST)


@given(st.lists(GAPS))
def test_a_machine_that_recovers_has_the_base_again_after_some_renewals(gaps):
    assert length(*gaps, *[1.0] * 20).seconds() == BASE


def test_a_longest_below_the_base_changes_nothing():
    assert LeaseLength(6, 1).seconds(1000) == 6
