"""Samples of a series at two resolutions, the choice of a chart's step, and the buckets of its points.

Samples of a minute are kept for a day or so, and samples of ten minutes for a week. A point covers one step, from
its time on; steps are aligned to multiples of their length since 1970, so that the same chart a minute later has
the same points. A step without a sample has no value: nothing is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from backend.domain.base.errors import ValueInvalid
from backend.domain.base.given_times import LATEST_MS
from backend.domain.history.metrics import Aggregate

MINUTE, TEN_MINUTES = 60, 600
"""Seconds between samples of the two resolutions."""
MOST_POINTS = 2_000
USUAL_POINTS = 180
"""Points of a chart at most, if no step is requested: more cannot be told apart on a page."""
MINUTE_MS, TEN_MINUTES_MS = 1_000 * MINUTE, 1_000 * TEN_MINUTES
_NICE_MINUTES = (1, 2, 5, 10, 20, 30, 60, 120, 180, 360, 720, 1440)

Sample = tuple[int, int, float]
"""Time in seconds since 1970, seconds that it covers, and value."""


def choose_step_ms(from_ms: int, to_ms: int, step_ms: int | None, minutes_since_ms: int) -> int:
    """Return the step of a chart in milliseconds: the requested one, or one with at most USUAL_POINTS points.

    `minutes_since_ms`: the time since when samples of a minute are kept; earlier points need steps of ten minutes.
    Raises ValueInvalid for an empty or impossible range, and for a step that is too short or no multiple.
    """
    if not 0 <= from_ms < to_ms <= LATEST_MS:
        raise ValueInvalid("`from` must be before `to`, and both between the years 1970 and 9999")
    least = MINUTE_MS if from_ms >= minutes_since_ms else TEN_MINUTES_MS
    if step_ms is None:
        return _usual_step_ms(to_ms - from_ms, least)
    if step_ms < MINUTE_MS or step_ms % MINUTE_MS:
        raise ValueInvalid(f"step_ms must be a multiple of {MINUTE_MS:,}, a minute; {step_ms:,} is not")
    if step_ms % least:
        raise ValueInvalid(
            f"samples of a minute are no longer kept at `from`; choose a step_ms that is a multiple of "
            f"{TEN_MINUTES_MS:,}, ten minutes, or a later `from`"
        )
    count = len(point_times_ms(from_ms, to_ms, step_ms))
    if count > MOST_POINTS:
        wider = math.ceil((to_ms - from_ms) / (MOST_POINTS - 1) / least) * least
        raise ValueInvalid(
            f"that would be {count:,} points, and {MOST_POINTS:,} are the most; choose a step_ms of at least "
            f"{wider:,}, or a shorter range"
        )
    return step_ms


def _usual_step_ms(span_ms: int, least_ms: int) -> int:
    for minutes in _NICE_MINUTES:
        step_ms = minutes * MINUTE_MS
        if step_ms >= least_ms and span_ms <= USUAL_POINTS * step_ms:
            return step_ms
    day_ms = _NICE_MINUTES[-1] * MINUTE_MS
    return math.ceil(span_ms / USUAL_POINTS / day_ms) * day_ms


def point_times_ms(from_ms: int, to_ms: int, step_ms: int) -> range:
    """Return the times of the points of a range: the first step may begin before `from_ms`."""
    return range(from_ms // step_ms * step_ms, to_ms, step_ms)


def in_steps(
    samples: Iterable[Sample], from_ms: int, to_ms: int, step_ms: int, aggregate: Aggregate
) -> list[tuple[int, float | None]]:
    """Return one point (time in milliseconds, value) for each step of a range; None where there is no sample."""
    buckets: dict[int, list[tuple[int, float]]] = {}
    for at, covered, value in samples:
        buckets.setdefault(1_000 * at // step_ms * step_ms, []).append((covered, value))
    times = point_times_ms(from_ms, to_ms, step_ms)
    return [(time, aggregated(buckets[time], aggregate) if time in buckets else None) for time in times]


def aggregated(samples: Sequence[tuple[int, float]], aggregate: Aggregate) -> float:
    """Return one value for samples, of which there is at least one, each with the seconds that it covers."""
    if aggregate is Aggregate.MAX:
        return max(value for _, value in samples)
    if aggregate is Aggregate.SUM:
        return math.fsum(value for _, value in samples)
    # By time: a sample of ten minutes counts as much as ten of one minute.
    return math.fsum(covered * value for covered, value in samples) / sum(covered for covered, _ in samples)
