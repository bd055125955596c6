"""Charts and sparklines that pages show: read from the history of measures, with their titles and addresses."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy import Connection

from backend.domain.history.metrics import ALL, METRICS, MetricInfo
from backend.queries.history.measures import Mark, Measured, read_many
from backend.web.history.chart import LARGE, SMALL, Chart, Frame, chart
from backend.web.history.chart_scales import DAY_MS, HOUR_MS, MINUTE_MS
from backend.web.history.measure_units import unit_named
from backend.web.history.sparkline import Sparkline, sparkline

CHARTS = "/charts"
_TITLES = {
    "edge.records_per_second": "Records copied by {}",
    "group.records_per_second": "Records consumed by {}",
    "cluster.bytes_in_per_second": "Bytes appended to {}",
    "switch.hold_ms": "Hold time of clients, switches from {}",
    "zones.cross_zone_bytes": "Bytes between zones, {}",
}
_TITLES_OF_ALL = {
    "switch.hold_ms": "Hold time of clients, all switches",
    "zones.cross_zone_bytes": "Bytes between zones, all zones",
}
_SUBJECT_WORDS = {"edge": "distributors", "group": "groups", "cluster": "clusters", "broker": "brokers"}
"""Plural of what a metric is about, by the first part of its name."""


@dataclass(frozen=True)
class Range:
    """A time range that charts offer."""

    name: str
    """Name of the range in addresses."""
    label: str
    words: str
    length_ms: int
    small_step_ms: int
    """Step of small charts: some 60 points are as many as they have room for, and pages are not compressed."""


RANGES: Mapping[str, Range] = {
    each.name: each
    for each in (
        Range("1h", "1 h", "last hour", HOUR_MS, MINUTE_MS),
        Range("24h", "24 h", "last 24 hours", DAY_MS, 20 * MINUTE_MS),
        Range("7d", "7 d", "last 7 days", 7 * DAY_MS, 3 * HOUR_MS),
    )
}
DEFAULT_RANGE = RANGES["24h"]


@dataclass(frozen=True)
class Window:
    """The time that a chart covers: whole minutes, from `from_ms` until before `to_ms`."""

    range: Range
    from_ms: int
    to_ms: int


def window(chosen: Range) -> Window:
    """Return the range's window that ends with the present minute."""
    to_ms = (int(time.time() * 1000) // MINUTE_MS + 1) * MINUTE_MS
    return Window(chosen, to_ms - chosen.length_ms, to_ms)


def charts_address(metric: str, subject: str = "", chosen: Range = DEFAULT_RANGE, path: str = CHARTS) -> str:
    """Return the address of the page with this chart, or of a part of that page."""
    given = {"metric": metric, "subject": subject, "range": chosen.name}
    return f"{path}?{urlencode({name: value for name, value in given.items() if value})}"


def measure_title(info: MetricInfo, subject: str) -> str:
    """Return the title of a chart: "Lag of cluster-1:2"."""
    if subject == ALL and info.name in _TITLES_OF_ALL:
        return _TITLES_OF_ALL[info.name]
    return _TITLES.get(info.name, f"{info.text} of {{}}").format(subject_text(subject))


def title_of_many(info: MetricInfo) -> str:
    """Return the title of charts of one metric side by side: "Lag of distributors"."""
    word = _SUBJECT_WORDS.get(info.name.partition(".")[0])
    return measure_title(info, word) if word else info.text


def subject_text(subject: str) -> str:
    """Return a subject as a title has it: a way between zones in words."""
    start, way, end = subject.partition(">")
    return f"{start} to {end}" if way else subject


def read_charts(
    connection: Connection,
    metric: str,
    subjects: Collection[str],
    shown: Window,
    *,
    marks: Sequence[Mark] = (),
    size: Frame = LARGE,
) -> list[Chart]:
    """Read one chart for each subject, in the order of the subjects; all with the same marks."""
    step_ms = shown.range.small_step_ms if size is SMALL else None
    found = read_many(connection, metric, subjects, shown.from_ms, shown.to_ms, step_ms) if subjects else {}
    return [_drawn(METRICS[metric], found[subject], shown, marks, size) for subject in subjects]


def _drawn(info: MetricInfo, measured: Measured, shown: Window, marks: Sequence[Mark], size: Frame) -> Chart:
    subject = measured.subject
    in_ms = {"from": str(shown.from_ms), "to": str(shown.to_ms), "step_ms": str(measured.step_ms)}
    of_rest = urlencode({"metric": info.name, "subject": subject, **in_ms})
    drawn = chart(
        measured.points,
        key=f"chart-{info.name.replace('.', '-')}-{_slug(subject)}",
        title=measure_title(info, subject),
        subject=subject_text(subject),
        span=shown.range.words,
        unit=unit_named(info.unit),
        from_ms=measured.points[0][0] if measured.points else shown.from_ms,
        to_ms=shown.to_ms,
        step_ms=measured.step_ms,
        marks=marks,
        size=size,
        are_events=not info.is_sampled,
    )
    return drawn.with_links(
        page=charts_address(info.name, subject, shown.range),
        figure=charts_address(info.name, subject, shown.range, f"{CHARTS}/figure/-live"),
        csv=charts_address(info.name, subject, shown.range, f"{CHARTS}/-export"),
        json=f"/api/v1/history?{of_rest}",
    )


def _slug(subject: str) -> str:
    """Return the subject as part of an id: no two subjects become the same, and no id has a space."""
    return "".join(sign if sign.isalnum() and sign.isascii() else f"-{ord(sign):x}-" for sign in subject)


def read_sparklines(
    connection: Connection, metric: str, subjects: Collection[str]
) -> Mapping[str, Sparkline | None]:
    """Read the sparkline of each subject's last hour, with at most two statements; None: it has no values.

    A point is of three minutes: a line as small as a word shows no more, and live pages send it again and again.
    """
    if not subjects:
        return {}
    shown, info = window(RANGES["1h"]), METRICS[metric]
    found = read_many(connection, metric, subjects, shown.from_ms, shown.to_ms, 3 * MINUTE_MS)
    return {
        subject: sparkline(
            [value for _, value in measured.points], name=measure_title(info, subject), unit=info.unit
        )
        for subject, measured in found.items()
    }
