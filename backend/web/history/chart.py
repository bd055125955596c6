"""Charts of measures: from points and marks to what the macro `chart` of frontend/components/charts.html draws.

A drawing is as wide as its place on the page, and as high as `height` says: places from the left are percentages,
those from the top are pixels. So texts keep their size on every screen, without JavaScript.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from backend.web.history.chart_scales import DAY_MS, HOUR_MS, time_ticks, utc, value_ticks
from backend.web.history.drawn_line import Spot, area_path, dots, line_path, runs, stem_path, value_or_gap
from backend.web.history.measure_units import Unit, on_axis, said

Points = Sequence[tuple[int, float | None]]
"""Values by the beginning of their step, in milliseconds since 1970; None where there is none."""


class MarkedEvent(Protocol):
    """An event to be marked; `backend.queries.history.measures.Mark` is one."""

    @property
    def position(self) -> int: ...
    @property
    def time(self) -> datetime: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Frame:
    """Size of a drawing, and how many ticks it has room for."""

    height: float
    top: float
    """Distance of the highest tick from the upper edge."""
    below: float
    """Height of the times below the floor."""
    most_values: int
    most_times: int

    @property
    def floor(self) -> float:
        """Return the distance of the value 0 from the upper edge."""
        return self.height - self.below


LARGE = Frame(height=260.0, top=28.0, below=26.0, most_values=5, most_times=7)
SMALL = Frame(height=124.0, top=10.0, below=24.0, most_values=3, most_times=4)
_MIN_BADGE_DISTANCE = 6.0
_MIN_RANGE_DISTANCE = 16.0
_LABEL_PX, _SIGN_PX = 16, 6.6
"""Width of a value's text beside the axis: what is around it, and each of its characters."""
_NOW_STEPS = 3
"""A value as old as this many steps still counts as the present one: the newest step may not be over."""


@dataclass(frozen=True)
class Tick:
    """A tick: its place (percent from the left, or pixels from the top) and text."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """A marked event: its number, and its place in percent from the left."""

    number: int
    at: float
    event: MarkedEvent
    clock: str


@dataclass(frozen=True)
class Badge:
    """A badge above the lines of one or more neighbouring marks: "3", or "3–5"."""

    at: float
    text: str

    @property
    def width(self) -> int:
        """Return its width in pixels."""
        return 10 + 7 * len(self.text)


@dataclass(frozen=True)
class Reading:
    """One step: its time and value in words and, if it has a value, its place in the drawing."""

    time: datetime
    clock: str
    value: str
    at: float
    top: float | None


@dataclass(frozen=True)
class Figures:
    """Newest, largest and smallest value, in words."""

    is_now: bool
    """False: the newest value is older than the present step."""
    last: str
    last_at: str
    peak: str
    peak_at: str
    least: str


@dataclass(frozen=True)
class Chart:
    """A chart, ready to be drawn."""

    key: str
    """Id of its element on a page."""
    title: str
    """Name of the measure with its subject: "Lag of cluster-1:2"."""
    subject: str
    """Name of the subject alone, for charts of one measure side by side."""
    span: str
    """The covered time in words: "last 24 hours"."""
    unit: str
    peak: float
    """Largest value; -1 without any."""
    frame: Frame
    figures: Figures | None
    """None: there is no value in this time."""
    line: str
    area: str
    """Paths in thousandths of the width and tenths of a pixel of the height."""
    dots: tuple[tuple[float, float], ...]
    """Places of values without neighbours: percent from the left, pixels from the top."""
    values: tuple[Tick, ...]
    times: tuple[Tick, ...]
    lines: tuple[Line, ...]
    badges: tuple[Badge, ...]
    readings: tuple[Reading, ...]
    links: dict[str, str] = field(default_factory=dict)
    """Addresses of this chart: "page", "figure" (to refresh it), "csv" and "json"."""

    @property
    def sentence(self) -> str:
        """Return the chart in words, for those who do not see it."""
        if self.figures is None:
            return f"{self.title}, {self.span}: no values"
        last = f"now {self.figures.last}"
        if not self.figures.is_now:
            last = f"last {self.figures.last} at {self.figures.last_at} UTC"
        peak = f"peak {self.figures.peak} at {self.figures.peak_at} UTC"
        return f"{self.title}, {self.span}: {last}, {peak}"

    @property
    def grid(self) -> str:
        """Return the path of the lines at the ticks of values, without the floor."""
        return "".join(f"M0 {round(10 * tick.at)}h1000" for tick in self.values[1:])

    @property
    def floor(self) -> str:
        """Return the path of the floor, with the ticks of times below it."""
        low = round(10 * self.frame.floor)
        return f"M0 {low}h1000" + "".join(f"M{round(10 * tick.at)} {low}v40" for tick in self.times)

    @property
    def scale_width(self) -> int:
        """Return the width of the values beside the axis in pixels."""
        return max(36, math.ceil(_LABEL_PX + _SIGN_PX * max(len(tick.text) for tick in self.values)))

    def with_links(self, **links: str) -> Chart:
        """Return the same chart with these addresses."""
        return replace(self, links=links)


def chart(
    points: Points,
    *,
    key: str,
    title: str,
    subject: str,
    span: str,
    unit: Unit,
    from_ms: int,
    to_ms: int,
    step_ms: int,
    marks: Sequence[MarkedEvent] = (),
    size: Frame = LARGE,
    are_events: bool = False,
) -> Chart:
    """Return the chart of points from `from_ms` to `to_ms`; the points are in order of time, one for each step.

    `are_events`: each value is that of an event, and not of something that has a value at any time.
    """
    scale = _Scale(from_ms, max(to_ms, from_ms + 1))
    shown = [(ms, value_or_gap(value)) for ms, value in points if scale.has(ms)]
    peak = max((value for _, value in shown if value is not None), default=-1.0)
    ticks = value_ticks(peak, most=size.most_values, whole=unit.is_whole)
    rise = (size.floor - size.top) / ticks[-1]
    # A day's first step may begin before it.
    long = to_ms - from_ms > DAY_MS + HOUR_MS
    readings = [
        Reading(
            time=utc(ms),
            clock=_clock(ms, long),
            value=said(value, unit),
            at=scale.percent(ms),
            top=None if value is None else round(size.floor - value * rise, 1),
        )
        for ms, value in shown
    ]
    spots = _spots(shown, readings, step_ms)
    stretches = [[spot] for spot in spots if spot is not None] if are_events else runs(spots)
    floor = round(10 * size.floor)
    lines = _lines(marks, scale, long)
    return Chart(
        key=key,
        title=title,
        subject=subject,
        span=span,
        unit=unit.name,
        peak=peak,
        frame=size,
        figures=_figures(shown, unit, math.inf if are_events else to_ms - _NOW_STEPS * step_ms, long),
        line=stem_path(spots, floor) if are_events else line_path(stretches),
        area="" if are_events else area_path(stretches, floor),
        dots=tuple((left / 10, top / 10) for left, top in dots(stretches)),
        # Without values there is nothing to be read from an axis.
        values=tuple(
            Tick(round(size.floor - tick * rise, 1), on_axis(tick, unit))
            for tick in (ticks if peak >= 0 else [0.0])
        ),
        times=tuple(
            Tick(scale.percent(ms), text) for ms, text in time_ticks(from_ms, to_ms, most=size.most_times)
        ),
        lines=tuple(lines),
        badges=tuple(_badges(lines)),
        readings=tuple(readings),
    )


@dataclass(frozen=True)
class _Scale:
    from_ms: int
    to_ms: int

    def has(self, ms: int) -> bool:
        return self.from_ms <= ms <= self.to_ms

    def percent(self, ms: int) -> float:
        return round(100 * (ms - self.from_ms) / (self.to_ms - self.from_ms), 2)


def _spots(
    shown: Sequence[tuple[int, float | None]], readings: Sequence[Reading], step_ms: int
) -> list[Spot | None]:
    """Return the line's spots in the units of paths; None for a gap, also for steps without a point."""
    spots: list[Spot | None] = []
    for n, reading in enumerate(readings):
        if n and shown[n][0] - shown[n - 1][0] > 1.5 * step_ms:
            spots.append(None)
        spots.append(None if reading.top is None else (round(reading.at * 10), round(reading.top * 10)))
    return spots


def _figures(shown: Sequence[tuple[int, float | None]], unit: Unit, now_ms: float, long: bool) -> Figures | None:
    """Return the figures; a last value since `now_ms` is the present one. None if there are no values."""
    known = [(ms, value) for ms, value in shown if value is not None]
    if not known:
        return None
    last_ms, last = known[-1]
    # The first of equal ones: max() keeps it.
    peak_ms, peak = max(known, key=lambda each: each[1])
    return Figures(
        is_now=last_ms >= now_ms,
        last=said(last, unit),
        last_at=_clock(last_ms, long),
        peak=said(peak, unit),
        peak_at=_clock(peak_ms, long),
        least=said(min(value for _, value in known), unit),
    )


def _lines(marks: Sequence[MarkedEvent], scale: _Scale, long: bool) -> list[Line]:
    found: list[Line] = []
    for event in sorted(marks, key=lambda mark: mark.position):
        ms = math.floor(event.time.timestamp() * 1000)
        if scale.has(ms):
            found.append(Line(len(found) + 1, scale.percent(ms), event, _clock(ms, long)))
    return found


def _badges(lines: Sequence[Line]) -> list[Badge]:
    """Return one badge for each line, or for neighbours whose badges would cover each other."""
    groups: list[list[Line]] = []
    for line in lines:
        distance = _MIN_RANGE_DISTANCE if groups and len(groups[-1]) > 1 else _MIN_BADGE_DISTANCE
        if groups and line.at - groups[-1][0].at < distance:
            groups[-1].append(line)
        else:
            groups.append([line])
    return [
        Badge(
            at=round((group[0].at + group[-1].at) / 2, 2),
            text=str(group[0].number) if len(group) == 1 else f"{group[0].number}–{group[-1].number}",
        )
        for group in groups
    ]


def _clock(ms: int, long: bool) -> str:
    moment = utc(ms)
    return f"{moment:%-d %b, %H:%M}" if long else f"{moment:%H:%M}"
