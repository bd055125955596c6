"""The token bucket: the mean holds and bursts are bounded, whatever the sizes; judged with clocks of the tests."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.distribution.throttle import Throttle

MOST = 5000


def copied_over(seconds, rate, size, commit_seconds=0.02, most=MOST):
    """Return the bytes that a task with an endless backlog copies in so many seconds, and its largest batch."""
    now, total, largest = 0.0, 0, 0
    throttle = Throttle(rate, now)
    while now < seconds:
        wait = throttle.wait_seconds(now)
        if wait > 0:
            now += wait
            continue
        records = throttle.most_records(now, most)
        batch = sum(size() for _ in range(records))
        now += commit_seconds
        throttle.spend(now, records, batch)
        total, largest = total + batch, max(largest, batch)
    return total, largest


SIZES = {
    "100 B": lambda source: 100,
    "1 kB": lambda source: 1_000,
    "100 kB": lambda source: 100_000,
    "mixed": lambda source: source.choice((50, 500, 5_000, 50_000)),
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("rate", [1_000_000, 20_000_000])
def test_over_ten_seconds_the_limit_holds_within_a_fifth(size, rate):
    source = random.Random(7)
    sizes = [size(source) for _ in range(1000)]
    total, _ = copied_over(10.0, rate, itertools.cycle(sizes).__next__)
    assert 0.8 * rate * 10 <= total <= 1.2 * rate * 10


@given(
    st.integers(1_000, 10**8),
    st.lists(st.integers(0, 2_000_000), min_size=1, max_size=50),
    st.floats(0.05, 0.5),
)
def test_no_more_passes_than_the_bucket_and_one_batch_of_guessing_wrong(rate, sizes, commit_seconds):
    source = random.Random(1)
    seconds = 5.0
    total, largest = copied_over(seconds, rate, lambda: source.choice([*sizes, 1]), commit_seconds, most=50)
    assert total <= rate * (seconds + 1.0) + largest


def test_a_first_batch_is_small_until_sizes_are_known():
    throttle = Throttle(1_000_000, 0.0)
    assert throttle.most_records(0.0, MOST) == 15
    throttle.spend(0.0, 15, 15 * 100)
    assert throttle.most_records(0.0, MOST) > 15


def test_one_record_may_be_larger_than_the_bucket_and_is_paid_back():
    throttle = Throttle(1_000, 0.0)
    assert throttle.most_records(0.0, MOST) == 1
    throttle.spend(0.0, 1, 60_000)
    assert throttle.wait_seconds(0.0) == pytest.approx(59.25)
    assert throttle.wait_seconds(59.0) > 0
    assert throttle.wait_seconds(59.5) == 0


def test_what_is_not_used_is_not_saved_up():
    throttle = Throttle(1_000_000, 0.0)
    throttle.spend(0.0, 1000, 100_000)
    for _ in range(6):
        throttle.spend(1000.0, 1000, 100_000)
    assert throttle.wait_seconds(1000.0) == 0
    throttle.spend(1000.0, 1000, 400_000)
    assert throttle.wait_seconds(1000.0) == pytest.approx(0.25)


def test_records_that_are_not_copied_cost_nothing():
    throttle = Throttle(1_000, 0.0)
    for _ in range(100):
        throttle.spend(0.0, 0, 0)
    assert throttle.wait_seconds(0.0) == 0
