"""Formats of figures, times and masks on pages: short, and of constant width where they change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime

from markupsafe import Markup

from backend.domain.base.words import counted as counted

NOTHING = "–"
# A longer word may not fit into one line of a narrow panel.
_LONGEST_WHOLE = 32
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_SPANS = ((_DAY, _HOUR, "d", "h"), (_HOUR, _MINUTE, "h", "min"), (_MINUTE, 1_000, "min", "s"))
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def compact(value: float | None) -> str:
    """Format with at most five characters: 0, 9.5, 812, 12.3k, 4.1M."""
    if value is None:
        return NOTHING
    # A value that would be rounded up to 1000 of a unit is 1 of the next.
    for size, unit in _STEPS:
        if value >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 99.95 else f"{scaled:.0f}{unit}"
    if 0 < value < 9.95 and value != int(value):
        return f"{value:.1f}"
    return f"{value:.0f}"


def full(value: float | None) -> str:
    """Format with all digits, in groups of three."""
    if isinstance(value, int):  # of which a float does not have all digits
        return f"{value:,}"
    return NOTHING if value is None else f"{value:,.0f}"


def sized(value: float | None) -> str:
    """Format bytes with about three digits: 812 B, 1.5 KiB, 20.0 GiB."""
    if value is None:
        return NOTHING
    for size, unit in _SIZES:
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:,.0f} B"


def moment(milliseconds: int | None, *, exact: bool = False) -> str:
    """Format one of Kafka's times in UTC, to the second or the millisecond; records may have any value."""
    try:
        if milliseconds is None or milliseconds < 0:
            return NOTHING
        found = datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return NOTHING
    return found.isoformat(" ", "milliseconds" if exact else "seconds")


def plain(text: str) -> str:
    """Return a search text without the characters that no name has."""
    return "".join(sign for sign in text.strip() if sign.isprintable())


def clock(moment: datetime) -> str:
    """Format the time of day in UTC."""
    return moment.astimezone(UTC).strftime("%H:%M:%S")


def day(moment: datetime) -> str:
    """Format the day in UTC, as "21 Nov 2026"."""
    return f"{moment.astimezone(UTC):%-d %b %Y}"


def instant(moment: datetime) -> str:
    """Format day and time in UTC, to the second."""
    return f"{day(moment)}, {clock(moment)}"


def shortened(text: str, most: int) -> str:
    """Return the text, its end replaced by … if it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def wrapped(text: str, columns: int, lines: int) -> tuple[str, ...]:
    """Wrap the text to at most `lines` lines of `columns` characters, the last ending in … if there was more."""
    return tuple(textwrap.wrap(text, columns, max_lines=lines, placeholder="…", break_on_hyphens=False))


def unbroken(text: str) -> Markup:
    """Return the text as HTML in which names like cluster-4 stay on one line."""
    whole = Markup('<span class="whole">{}</span>')
    words = (
        whole.format(word) if "-" in word and len(word) <= _LONGEST_WHOLE else word for word in text.split(" ")
    )
    return Markup(" ").join(words)


def span(ms: float) -> str:
    """Format a duration: `812 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if ms < 1_000:
        return f"{max(0, ms):.0f} ms"
    if ms < _MINUTE:
        return f"{ms / 1000:.1f} s"
    whole, part, large, small = next(steps for steps in _SPANS if ms >= steps[0])
    count, rest = divmod(int(ms), whole)
    return f"{count} {large} {rest // part} {small}" if rest // part else f"{count} {large}"


def span_range(shortest_ms: float, longest_ms: float) -> str:
    """Format a range of durations: `4.2 s`, `1.4 to 4.2 s`, `812 ms to 1.4 s`."""
    shortest, longest = span(shortest_ms), span(longest_ms)
    if shortest == longest:
        return longest
    # A unit is left out only if it is the whole of both: "1 to 3 min 5 s" would lose a part of "1 min 5 s".
    number, *units = shortest.split(" ")
    return f"{number if units == longest.split(' ')[1:] and len(units) == 1 else shortest} to {longest}"


def id_ranges(ids: Iterable[int]) -> str:
    """Format ids as ranges, `1-3, 7`, which forms accept, too."""
    runs: list[list[int]] = []
    for each in sorted(set(ids)):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
