"""Numbers and times in sentences, as pages and commands say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def lasting(milliseconds: int) -> str:
    """`7 days`, `90 seconds`, `for ever`: in the largest unit that says it exactly."""
    if milliseconds < 0:
        return "for ever"
    size, unit = next((each for each in _UNITS if milliseconds and milliseconds % each[0] == 0), (1, "ms"))
    return f"{milliseconds:,} ms" if size == 1 else counted(milliseconds // size, unit)
