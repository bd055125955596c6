"""Ticks of a chart's axes: values in steps of 1, 2 or 5 times a power of ten, times at round UTC times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_TIME_STEPS = (
    *(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_MS for hours in (1, 2, 3, 6, 12)),
    *(days * DAY_MS for days in (1, 2, 7, 14, 28)),
)
_LEAST_PEAK = 0.05


def value_ticks(peak: float, *, most: int, whole: bool = False) -> list[float]:
    """Return ticks from 0 to a top that is not below the peak, at most `most` + 1 of them.

    `whole`: no tick is a fraction. A peak of 0 gets an axis up to 1.
    """
    if peak <= 0:
        return [0.0, 1.0]
    reached = max(peak, 1.0 if whole else _LEAST_PEAK)
    exponent = math.floor(math.log10(reached)) - 1
    steps = [(factor, exponent + more) for more in range(3) for factor in (1, 2, 5)]
    factor, power = next(
        (factor, power)
        for factor, power in steps
        if reached <= most * _times(factor, power) and (power >= 0 or not whole)
    )
    count = max(1, math.ceil(reached / _times(factor, power) - 1e-9))
    return [_times(n * factor, power) for n in range(count + 1)]


def _times(factor: int, power: int) -> float:
    # By a division for fractions: 3 / 10 is 0.3, and 3 * 0.1 is not.
    return float(factor * 10**power) if power >= 0 else factor / 10**-power


def time_ticks(from_ms: int, to_ms: int, *, most: int) -> Sequence[tuple[int, str]]:
    """Return times between the two (milliseconds since 1970) at round UTC times, with their texts; at most `most`.

    Midnight has its day as text.
    """
    for step in _TIME_STEPS:
        first = -(-from_ms // step) * step
        if first > to_ms:
            return ()
        if (to_ms - first) // step + 1 <= most:
            return [(ms, _tick_text(ms)) for ms in range(first, to_ms + 1, step)]
    return ()


def _tick_text(ms: int) -> str:
    moment = utc(ms)
    return f"{moment:%-d %b}" if ms % DAY_MS == 0 else f"{moment:%H:%M}"


def utc(ms: int) -> datetime:
    """Return the time of these milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)
