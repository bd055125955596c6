"""Sparklines: a measure's last hour as a line as small as a word, for the rows of tables.

The macro `sparkline` of frontend/components/charts.html draws one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.web.history.drawn_line import Spot, area_path, dots, line_path, runs, value_or_gap
from backend.web.history.measure_units import said, unit_named

WIDTH, HEIGHT = 440, 110
"""Size in fifths of a pixel."""
_EDGE = 10
"""Distance of the line from all edges, so that its ends and dots are not cut off."""


@dataclass(frozen=True)
class Sparkline:
    """A sparkline, ready to be drawn in a box of `width` by `height` fifths of a pixel."""

    text: str
    """Text for those who do not see the line."""
    line: str
    area: str
    dots: tuple[Spot, ...]
    end: Spot | None
    """Newest value, if the newest time has one."""
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(
    values: Sequence[float | None], *, name: str, unit: str, span: str = "last hour"
) -> Sparkline | None:
    """Return the sparkline of values at equal distances in time, the oldest first; None if all are missing.

    `name` says what is measured ("Lag of cluster-1:2"); `unit` is a metric's unit; `span` is the covered time.
    """
    # The newest minute may not have been stored yet.
    past = values[:-1] if len(values) > 1 and values[-1] is None else values
    known = [value_or_gap(value) for value in past]
    present = [value for value in known if value is not None]
    if not present:
        return None
    top = max(present) or 1.0
    across = (WIDTH - 2 * _EDGE) / max(1, len(known) - 1)
    floor = HEIGHT - _EDGE
    spots = [
        None if value is None else (round(_EDGE + n * across), round(floor - value / top * (floor - _EDGE)))
        for n, value in enumerate(known)
    ]
    stretches = runs(spots)
    measured = unit_named(unit)
    newest = known[-1] if known[-1] is not None else present[-1]
    when = "now" if known[-1] is not None else "last known"
    text = f"{name}, {span}: {when} {said(newest, measured)}, peak {said(max(present), measured)}"
    return Sparkline(text, line_path(stretches), area_path(stretches, floor), tuple(dots(stretches)), spots[-1])
