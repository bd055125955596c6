"""Numbers and durations in words, for pages and commands."""

from __future__ import annotations


def counted(number: int, noun: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 record`, `2 records`; `many`: a plural that is not formed with an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {many or f'{noun}s'}"


_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def lasting(milliseconds: int) -> str:
    """Return a duration in the largest unit that is exact: `7 days`, `90 seconds`, `for ever`."""
    if milliseconds < 0:
        return "for ever"
    size, unit = next((each for each in _UNITS if milliseconds and milliseconds % each[0] == 0), (1, "ms"))
    return f"{milliseconds:,} ms" if size == 1 else counted(milliseconds // size, unit)
