"""Steps of charts, and the points that samples become."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import ValueInvalid
from backend.domain.history.metrics import Aggregate
from backend.domain.history.steps import (
    MOST_POINTS,
    TEN_MINUTES_MS,
    USUAL_POINTS,
    Sample,
    aggregated,
    choose_step_ms,
    in_steps,
    point_times_ms,
)

NOW = 1_800_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SINCE = NOW - 25 * HOUR


@pytest.mark.parametrize(
    ("span_ms", "step_ms"),
    [
        (1, MINUTE),
        (HOUR, MINUTE),
        (3 * HOUR, MINUTE),
        (6 * HOUR, 2 * MINUTE),
        (DAY, 10 * MINUTE),
        (26 * HOUR, 10 * MINUTE),
        (7 * DAY, 60 * MINUTE),
        (8 * DAY, 120 * MINUTE),
        (3650 * DAY, 21 * DAY),
    ],
)
def test_the_usual_step_of_a_range(span_ms: int, step_ms: int) -> None:
    assert choose_step_ms(NOW - span_ms, NOW, None, SINCE) == step_ms


@pytest.mark.parametrize(
    ("since_ms", "until_ms", "step_ms", "said"),
    [
        (NOW, NOW, None, "`from` must be before `to`"),
        (NOW, NOW - 1, None, "`from` must be before `to`"),
        (-1, NOW, None, "between the years 1970 and 9999"),
        (NOW, 10**15, None, "between the years 1970 and 9999"),
        (NOW - HOUR, NOW, 0, "a multiple of 60,000"),
        (NOW - HOUR, NOW, 59_999, "a multiple of 60,000"),
        (NOW - HOUR, NOW, 90_000, "a multiple of 60,000"),
        (NOW - 26 * HOUR, NOW, MINUTE, "a multiple of 600,000, ten minutes, or a later `from`"),
        (
            NOW - 30 * DAY,
            NOW,
            TEN_MINUTES_MS,
            "4,320 points, and 2,000 are the most; choose a step_ms of at least",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_do(
    since_ms: int, until_ms: int, step_ms: int | None, said: str
) -> None:
    with pytest.raises(ValueInvalid) as refused:
        choose_step_ms(since_ms, until_ms, step_ms, SINCE)
    assert said in refused.value.detail


@given(st.integers(0, NOW), st.integers(1, 400 * DAY), st.integers(0, NOW))
def test_every_range_has_a_usual_step_with_few_points(since_ms: int, span_ms: int, minutes_since_ms: int) -> None:
    step_ms = choose_step_ms(since_ms, since_ms + span_ms, None, minutes_since_ms)
    least = MINUTE if since_ms >= minutes_since_ms else TEN_MINUTES_MS
    assert step_ms % least == 0 and len(point_times_ms(since_ms, since_ms + span_ms, step_ms)) <= USUAL_POINTS + 1


@given(st.integers(0, NOW), st.integers(1, 400 * DAY), st.integers(1, 5000))
def test_a_step_that_a_refusal_names_is_taken(since_ms: int, span_ms: int, minutes: int) -> None:
    try:
        step_ms = choose_step_ms(since_ms, since_ms + span_ms, minutes * MINUTE, 0)
    except ValueInvalid as error:
        named = int(error.detail.partition("at least ")[2].partition(", or")[0].replace(",", ""))
        step_ms = choose_step_ms(since_ms, since_ms + span_ms, named, 0)
    assert len(point_times_ms(since_ms, since_ms + span_ms, step_ms)) <= MOST_POINTS


VALUES = st.floats(0, 1e15)
SAMPLES = st.lists(st.tuples(st.integers(0, 7200), st.sampled_from([60, 600]), VALUES), max_size=50)


@given(
    SAMPLES, st.integers(0, 7_200_000), st.integers(1, 7_200_000), st.integers(1, 60), st.sampled_from(Aggregate)
)
def test_a_point_has_a_value_exactly_if_a_sample_is_within_its_step(
    samples: list[Sample], since_ms: int, span_ms: int, minutes: int, aggregate: Aggregate
) -> None:
    step_ms = minutes * MINUTE
    points = in_steps(samples, since_ms, since_ms + span_ms, step_ms, aggregate)
    times = [at for at, _ in points]
    assert times == sorted(set(times)) and all(at % step_ms == 0 for at in times)
    assert times[0] <= since_ms and since_ms + span_ms - step_ms <= times[-1] < since_ms + span_ms
    for at, value in points:
        inside = [each for second, _, each in samples if at <= 1000 * second < at + step_ms]
        assert (value is not None) == bool(inside)
        if value is not None:
            most = sum(inside) if aggregate is Aggregate.SUM else max(inside)
            assert min(inside) * (1 - 1e-9) <= value <= most * (1 + 1e-9)


def test_a_mean_counts_by_time_and_sums_lose_nothing() -> None:
    samples = [(600, 4.0), (60, 15.0)]
    assert aggregated(samples, Aggregate.MEAN) == 5
    assert aggregated(samples, Aggregate.MAX) == 15
    assert aggregated(samples, Aggregate.SUM) == 19
    assert aggregated([(60, 0.1)] * 10, Aggregate.SUM) == 1 and not math.isnan(aggregated(samples, Aggregate.MEAN))
