"""Charts and sparklines of measures: what is drawn, where, and what is said about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.web.history.chart import LARGE, SMALL, Chart, Frame, chart
from backend.web.history.chart_scales import DAY_MS, HOUR_MS, MINUTE_MS, time_ticks, value_ticks
from backend.web.history.drawn_line import LARGEST
from backend.web.history.measure_units import on_axis, said, unit_named
from backend.web.history.sparkline import HEIGHT, WIDTH, sparkline

NOON = 1_795_867_200_000  # 28 November 2026, 12:00 UTC
VALUES = st.one_of(
    st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1e15), st.integers(0, 10**15)
)


@dataclass(frozen=True)
class Marked:
    """An event to be marked."""

    position: int
    time: datetime
    text: str


def drawn(
    values: Sequence[float | None],
    *,
    unit: str = "records",
    marks: Sequence[Marked] = (),
    step_ms: int = MINUTE_MS,
    size: Frame = LARGE,
    skipped: Sequence[int] = (),
) -> Chart:
    """Draw values, one for each step up to noon; `skipped` are indexes whose points are not there at all."""
    start = NOON - len(values) * step_ms
    points = [(start + n * step_ms, value) for n, value in enumerate(values) if n not in skipped]
    return chart(
        points,
        key="c",
        title="Lag of c1:2",
        subject="c1:2",
        span="last hour",
        unit=unit_named(unit),
        from_ms=start,
        to_ms=NOON,
        step_ms=step_ms,
        marks=marks,
        size=size,
    )


def spots(path: str) -> list[list[tuple[int, int]]]:
    """Return the subpaths of a path as lists of coordinates."""
    found = []
    for part in path.split("M")[1:]:
        numbers = [int(each) for each in re.findall(r"-?\d+", part)]
        steps = list(zip(numbers[::2], numbers[1::2], strict=True))
        found.append(list(accumulate(steps, lambda at, step: (at[0] + step[0], at[1] + step[1]))))
    return found


@given(values=st.lists(VALUES, max_size=80), size=st.sampled_from([LARGE, SMALL]))
def test_all_is_within_the_drawing_and_gaps_are_gaps(values: list[float | None], size: Frame) -> None:
    view = drawn(values, size=size)
    present = [value is not None and abs(value) <= LARGEST for value in values]
    lines = spots(view.line)
    assert "nan" not in view.line + view.area and "inf" not in view.line + view.area
    for left, top in [spot for part in [*lines, *spots(view.area)] for spot in part]:
        assert 0 <= left <= 1000 and 10 * size.top <= top <= 10 * size.floor
    for left, top in view.dots:
        assert 0 <= left <= 100 and size.top - 0.1 <= top <= size.floor + 0.1
    assert all(size.top <= tick.at <= size.floor for tick in view.values)
    # As many spots as values, and a stretch for each run of them: none is left out and no gap is crossed.
    starts = sum(has and not before for before, has in pairwise([False, *present]))
    assert sum(map(len, lines)) + len(view.dots) == sum(present)
    assert len(lines) + len(view.dots) == starts
    assert (view.figures is None) == (not any(present))
    assert "nan" not in view.sentence and "-" not in view.sentence.replace("c1-", "")


@given(values=st.lists(VALUES, max_size=61))
def test_a_sparkline_stays_in_its_box(values: list[float | None]) -> None:
    line = sparkline(values, name="Lag", unit="records")
    present = [value is not None and abs(value) <= LARGEST for value in values]
    assert (line is None) == (not any(present))
    if line is not None:
        found = [spot for part in spots(line.line) for spot in part]
        assert len(found) + len(line.dots) == sum(present)
        for left, top in [*found, *line.dots]:
            assert 0 <= left <= WIDTH and 0 <= top <= HEIGHT


@given(peak=st.floats(0, 1e38), most=st.integers(2, 6), whole=st.booleans())
def test_value_ticks_cover_the_peak_in_round_steps(peak: float, most: int, whole: bool) -> None:
    ticks = value_ticks(peak, most=most, whole=whole)
    assert ticks[0] == 0 and ticks[-1] >= peak * (1 - 1e-9) and 2 <= len(ticks) <= most + 1
    assert all(low < high for low, high in pairwise(ticks))
    assert re.fullmatch(r"[125](\.0*)?e[+-]\d+", f"{ticks[1]:.12e}") is not None
    assert not whole or all(tick == int(tick) for tick in ticks)


@pytest.mark.parametrize(
    ("peak", "whole", "ticks"),
    [
        (0, True, [0, 1]),
        (0, False, [0, 1]),
        (1, True, [0, 1]),
        (1, False, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.3, False, [0, 0.1, 0.2, 0.3]),
        (1204, True, [0, 500, 1000, 1500]),
        (1e15, False, [0, 2e14, 4e14, 6e14, 8e14, 1e15]),
    ],
)
def test_value_ticks(peak: float, whole: bool, ticks: list[float]) -> None:
    assert value_ticks(peak, most=5, whole=whole) == ticks


@given(start=st.integers(0, 4 * 10**12), span=st.integers(1, 40 * DAY_MS), most=st.integers(2, 8))
def test_time_ticks_are_inside_and_not_too_many(start: int, span: int, most: int) -> None:
    ticks = time_ticks(start, start + span, most=most)
    assert len(ticks) <= most
    assert all(start <= ms <= start + span and ms % MINUTE_MS == 0 for ms, _ in ticks)


@pytest.mark.parametrize(
    ("hours", "texts"),
    [
        (1, ["11:00", "11:10", "11:20", "11:30", "11:40", "11:50", "12:00"]),
        (24, ["12:00", "18:00", "28 Nov", "06:00", "12:00"]),
        (168, ["22 Nov", "23 Nov", "24 Nov", "25 Nov", "26 Nov", "27 Nov", "28 Nov"]),
    ],
)
def test_times_are_round_in_utc(hours: int, texts: list[str]) -> None:
    assert [text for _, text in time_ticks(NOON - hours * HOUR_MS, NOON, most=7)] == texts


def test_it_says_what_it_shows() -> None:
    view = drawn([3, None, 1204, 0], unit="records")
    assert view.sentence == "Lag of c1:2, last hour: now 0 records, peak 1,204 records at 11:58 UTC"
    assert view.figures is not None and view.figures.least == "0 records"
    assert [each.text for each in view.values] == ["0", "500", "1k", "1.5k"]
    assert [(each.clock, each.value) for each in view.readings] == [
        ("11:56", "3 records"),
        ("11:57", "–"),
        ("11:58", "1,204 records"),
        ("11:59", "0 records"),
    ]


def test_an_old_value_is_not_the_present_one() -> None:
    view = drawn([7, 8, None, None, None, None])
    assert view.sentence == "Lag of c1:2, last hour: last 8 records at 11:55 UTC, peak 8 records at 11:55 UTC"


def test_no_values_are_said_and_leave_an_empty_drawing() -> None:
    view = drawn([None, None])
    assert view.sentence == "Lag of c1:2, last hour: no values" and view.figures is None
    assert (view.line, view.area, view.dots) == ("", "", ())
    assert [each.text for each in view.values] == ["0"]


@pytest.mark.parametrize(("value", "top"), [(0.0, LARGE.floor), (-5.0, LARGE.floor), (1.0, LARGE.top)])
def test_constant_values_are_a_level_line(value: float, top: float) -> None:
    (line,) = spots(drawn([value] * 5).line)
    assert {spot[1] for spot in line} == {10 * top}


def test_values_of_events_stand_alone() -> None:
    view = chart(
        [(NOON - MINUTE_MS, 5.0), (NOON, 10.0)],
        key="c",
        title="Hold time of clients",
        subject="all",
        span="last hour",
        unit=unit_named("ms"),
        from_ms=NOON - HOUR_MS,
        to_ms=NOON,
        step_ms=MINUTE_MS,
        are_events=True,
    )
    assert [len(part) for part in spots(view.line)] == [2, 2] and len(view.dots) == 2 and view.area == ""
    assert view.sentence == "Hold time of clients, last hour: last 10 ms at 12:00 UTC, peak 10 ms at 12:00 UTC"


def test_one_point_is_a_dot() -> None:
    view = drawn([None, 5, None])
    assert view.line == "" and len(view.dots) == 1


def test_a_missing_step_is_a_gap_as_well() -> None:
    assert len(spots(drawn([1, 2, 3, 4, 5], skipped=[2]).line)) == 2


def test_marks_are_numbered_lines_and_neighbours_share_a_badge() -> None:
    at = [NOON - minutes * MINUTE_MS for minutes in (50, 30, 29, 28, 2, 90)]
    events = [Marked(n + 10, datetime.fromtimestamp(ms / 1000, UTC), "Tree changed") for n, ms in enumerate(at)]
    view = drawn([1.0] * 60, marks=events)
    assert [(line.number, line.event.position, line.clock) for line in view.lines] == [
        (1, 10, "11:10"),
        (2, 11, "11:30"),
        (3, 12, "11:31"),
        (4, 13, "11:32"),
        (5, 14, "11:58"),
    ]
    assert [each.text for each in view.badges] == ["1", "2–4", "5"]


@pytest.mark.parametrize(
    ("value", "unit", "text", "tick"),
    [
        (1, "records", "1 record", "1"),
        (1204, "records", "1,204 records", "1.2k"),
        (12_300_000, "records", "12.3M records", "12.3M"),
        (0.5, "records/s", "0.5 records/s", "0.5"),
        (250, "B/s", "250 B/s", "250 B/s"),
        (5_000_000, "B/s", "5 MB/s", "5 MB/s"),
        (1e15, "B", "1 PB", "1 PB"),
        (350, "ms", "350 ms", "350 ms"),
        (2000, "ms", "2 s", "2 s"),
        (12.34, "s", "12.3 s", "12.3 s"),
        (0, "B", "0 B", "0"),
        (None, "s", "–", None),
        (3, "widgets", "3 widgets", "3"),
    ],
)
def test_values_have_their_units(value: float | None, unit: str, text: str, tick: str | None) -> None:
    assert said(value, unit_named(unit)) == text
    assert tick is None or value is None or on_axis(value, unit_named(unit)) == tick


def test_a_sparkline_says_its_newest_value_and_peak() -> None:
    line = sparkline([1, 20, 4], name="Lag of c1:2", unit="records")
    assert line is not None and line.end is not None
    assert line.text == "Lag of c1:2, last hour: now 4 records, peak 20 records"
    unfinished = sparkline([1, 20, None], name="Lag of c1:2", unit="records")
    assert unfinished is not None and unfinished.end is not None and "now 20 records" in unfinished.text
    old = sparkline([1, 20, None, None], name="Lag of c1:2", unit="records")
    assert old is not None and old.end is None and "last known 20 records" in old.text
