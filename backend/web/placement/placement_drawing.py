"""Layout of a placement's two grids: before on the left, after on the right, with the same rows.

Coordinates are whole pixels. In a small grid each cell is an element with a description; in a large one all cells
of a shade are one path, so that the page stays small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from backend.web.placement.placement_compared import GONE, STAYS
from backend.web.placement.placement_heat import SHADES, Column, Grid, Heat, Row
from backend.web.words.figures import compact, counted, shortened

_RACK, _LABEL, _BAR, _FIGURE, _GAP = 72, 88, 46, 36, 24
_MAP, _WIDEST_CELL = 324, 36
"""Width of a grid, so that both fit beside the side bar in a window of 1,280 pixels, and the widest cell in it."""
_TOP, _RACK_GAP = 58, 7
_CHARACTER = 6.4
"""Average width of a label's character, in pixels."""
_WIDE_CHARACTER, _LABEL_GAP, _LEAST_OF_A_NAME = 7.2, 6, 10
"""Width of a name's character, gap between names, and the shortest useful abbreviation in characters.

Names stand side by side and must not overlap.
"""
_LEAST_OF_JOINED = 90
"""Width in pixels of neighbouring topics that share a label because their own names do not fit."""
_DIGIT, _NUMBER_GAP = 6.0, 5
_MAX_DESCRIBED = 1_500
"""Number of cells up to which each has a description."""


@dataclass(frozen=True)
class Cell:
    """The replicas of a row and column that stay, or those that move."""

    x: int
    y: int
    width: int
    height: int
    moves: bool
    shade: int
    leads: bool
    description: str


@dataclass(frozen=True)
class Path:
    """All cells of one shade that stay, or that move."""

    moves: bool
    shade: int
    d: str


@dataclass(frozen=True)
class Line:
    """A row: its label, and a bar of its brokers' replicas before and after."""

    y: int
    height: int
    label: str
    kind: str
    description: str
    bars: tuple[Bar, Bar]

    @property
    def base(self) -> int:
        """Return the y of the row's text baseline."""
        return self.y + self.height // 2 + 4


@dataclass(frozen=True)
class Bar:
    """Replicas per broker of a row, and the leaders among them."""

    x: int
    width: int
    leading: int
    figure: str
    is_empty: bool


@dataclass(frozen=True)
class Band:
    """A rack beside its rows, or a topic above its columns."""

    start: int
    length: int
    label: str
    name: str


@dataclass(frozen=True)
class Map:
    """One of the two grids; `x` is its left edge."""

    title: str
    x: int
    cells: Sequence[Cell]
    paths: Sequence[Path]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The complete drawing."""

    width: int
    height: int
    map_width: int
    maps: tuple[Map, Map]
    lines: Sequence[Line]
    racks: Sequence[Band]
    topics: Sequence[Band]
    headings: Sequence[Band]
    """Labels of neighbouring topics whose own names do not fit."""
    numbers: Sequence[tuple[int, int]]
    """Position and number of the partitions' labels, as far as they fit."""
    is_exact: bool
    cell_meaning: str
    """Description of what one cell stands for."""
    shades: Sequence[tuple[int, str]]
    """Legend: shades with the number of replicas at which each begins."""

    top = _TOP


def draw(heat: Heat) -> Drawing:
    """Lay out both grids."""
    cell = max(min(_WIDEST_CELL, _MAP // len(heat.columns)), 1)
    tall = 24 if len(heat.rows) <= 12 else 18 if len(heat.rows) <= 30 else 13
    map_width = cell * len(heat.columns)
    left = _RACK + _LABEL
    second = left + max(map_width, 120) + _BAR + _FIGURE + _GAP
    tops = _tops(heat.rows, tall)
    most = max((_per_broker(row, total) for row in heat.rows for total in _totals(row)), default=0.0)
    shown = [
        _map(heat, title, grid, x, tops, cell, tall)
        for title, grid, x in (("Before", heat.before, left), ("After", heat.after, second))
    ]
    bars = [x + max(map_width, 120) + 8 for x in (left, second)]
    topics = _topics(heat.columns, cell)
    return Drawing(
        width=second + max(map_width, 120) + _BAR + _FIGURE,
        height=(tops[-1] + tall if tops else _TOP) + 6,
        map_width=map_width,
        maps=(shown[0], shown[1]),
        lines=[_line(row, y, tall, most, bars) for row, y in zip(heat.rows, tops, strict=True)],
        racks=_racks(heat.rows, tops, tall),
        topics=topics,
        headings=list(_headings(topics)),
        numbers=_numbers(heat, cell),
        is_exact=heat.is_exact,
        cell_meaning=_cell_meaning(heat),
        shades=() if heat.is_exact else _legend(heat.shade_of),
    )


def _tops(rows: Sequence[Row], tall: int) -> list[int]:
    """Return the y of each row; racks are separated by a gap."""
    found, y = [], _TOP
    for at, row in enumerate(rows):
        if at and row.rack != rows[at - 1].rack:
            y += _RACK_GAP
        found.append(y)
        y += tall
    return found


def _map(heat: Heat, title: str, grid: Grid, x: int, tops: Sequence[int], cell: int, tall: int) -> Map:
    filled = int((grid.replicas > 0).sum())
    has_descriptions = filled <= _MAX_DESCRIBED
    cells = list(_cells(heat, grid, title == "After", x, tops, cell, tall, has_descriptions=has_descriptions))
    if has_descriptions:
        return Map(title, x, cells, ())
    by_shade: dict[tuple[bool, int], list[str]] = defaultdict(list)
    for each in cells:
        path = f"M{each.x} {each.y}h{each.width}v{each.height}h-{each.width}z"
        by_shade[each.moves, each.shade].append(path)
    return Map(title, x, (), [Path(*key, "".join(by_shade[key])) for key in sorted(by_shade)])


def _cells(
    heat: Heat,
    grid: Grid,
    is_after: bool,
    x: int,
    tops: Sequence[int],
    cell: int,
    tall: int,
    *,
    has_descriptions: bool,
) -> Iterator[Cell]:
    shades, replicas = heat.shades(grid).tolist(), grid.replicas.tolist()
    leaders, moving = grid.leaders.tolist(), grid.moving.tolist()
    gap = 1 if cell > 4 else 0
    wide, high = cell - gap, tall - 1
    for row, top in enumerate(tops):
        for column, count in enumerate(replicas[row]):
            if not count:
                continue
            moves = moving[row][column]
            # The widths are proportional, but neither part may vanish.
            going = round(wide * moves / count)
            going = min(max(going, 1 if moves else 0), wide if moves == count else max(wide - 1, 1))
            description = (
                _description(heat, row, column, count, leaders[row][column], moves, is_after)
                if has_descriptions
                else ""
            )
            start, shade, leads = x + column * cell, shades[row][column], bool(leaders[row][column])
            if wide - going:
                yield Cell(start, top, wide - going, high, False, shade, leads, description)
            if going:
                yield Cell(
                    start + wide - going, top, going, high, True, shade, leads and going == wide, description
                )


def _description(heat: Heat, row: int, column: int, count: int, leaders: int, moves: int, is_after: bool) -> str:
    where = f"{_partitions(heat.columns[column])} on {_brokers(heat.rows[row])}"
    does = "arrives" if is_after else "leaves"
    if heat.is_exact:
        return f"{where}: {'leads' if leaders else 'follows'}{f', {does}' if moves else ''}"
    how = f", {moves:,} {does.removesuffix('s')}" if moves else ""
    return f"{where}: {counted(count, 'replica')}, {leaders:,} lead{how}"


def _partitions(column: Column) -> str:
    (first, low), (last, high) = column.first, column.last
    if column.partitions == 1:
        return f"{first} {low}"
    return f"{first} {low} to {high}" if column.topic else f"{first} {low} to {last} {high}"


def _brokers(row: Row) -> str:
    if len(row.brokers) == 1:
        return f"broker {row.brokers[0].id}"
    return f"{len(row.brokers):,} brokers{f' of {row.rack}' if row.rack else ''}"


# --- beside and above


def _totals(row: Row) -> tuple[int, int]:
    return sum(each.replicas for each in row.brokers), sum(each.replicas_after for each in row.brokers)


def _per_broker(row: Row, total: int) -> float:
    return total / len(row.brokers)


def _line(row: Row, y: int, tall: int, most: float, bars: Sequence[int]) -> Line:
    leaders = sum(each.leaders for each in row.brokers), sum(each.leaders_after for each in row.brokers)
    totals = _totals(row)
    drawn = [
        Bar(
            x=x,
            width=round(_BAR * _per_broker(row, total) / most) if most else 0,
            leading=round(_BAR * _per_broker(row, leading) / most) if most else 0,
            figure=compact(_per_broker(row, total)),
            is_empty=not total,
        )
        for x, total, leading in zip(bars, totals, leaders, strict=True)
    ]
    count = len(row.brokers)
    # A single broker is labelled with its id, several with their number.
    label = str(row.brokers[0].id) if count == 1 else counted(count, "broker")
    kind = "" if row.kind in (STAYS, GONE) else row.kind
    if kind and count > 1:
        label, kind = f"{count:,}", kind
    each = "" if count == 1 else f", {compact(totals[0] / count)} and {compact(totals[1] / count)} each"
    description = (
        f"{_brokers(row)[0].upper()}{_brokers(row)[1:]}{f', {row.kind}' if row.kind else ''}: "
        f"{counted(totals[0], 'replica')} before, {totals[1]:,} after{each}; "
        f"{counted(leaders[0], 'leader')} before, {leaders[1]:,} after"
    )
    return Line(y, tall - 1, label, kind, description, (drawn[0], drawn[1]))


def _racks(rows: Sequence[Row], tops: Sequence[int], tall: int) -> list[Band]:
    found = []
    for rack, group in groupby(range(len(rows)), lambda at: rows[at].rack):
        some = list(group)
        start, end = tops[some[0]], tops[some[-1]] + tall - 1
        name = "several racks" if rack is None else rack
        found.append(Band(start, end - start, shortened(name, int((_RACK - 12) / _CHARACTER)), name))
    return found


def _topics(columns: Sequence[Column], cell: int) -> list[Band]:
    found = []
    for topic, group in groupby(range(len(columns)), lambda at: columns[at].topic):
        some = list(group)
        shown = "several topics" if topic is None else topic
        name = topic or f"{columns[some[0]].first[0]} to {columns[some[-1]].last[0]}"
        length = len(some) * cell - 2
        # Names of topics often share a prefix, so a short abbreviation says nothing; a tooltip has the full name.
        fits = int((length - _LABEL_GAP) / _WIDE_CHARACTER)
        is_labelled = len(shown) <= fits or fits >= _LEAST_OF_A_NAME
        found.append(Band(some[0] * cell, length, shortened(shown, fits) if is_labelled else "", name))
    return found


def _headings(bands: Sequence[Band]) -> Iterator[Band]:
    """Yield a label for neighbouring topics that have no room for their names: how many they are."""
    waiting: list[Band] = []
    for at, band in enumerate(bands):
        if band.label:
            waiting = []
            continue
        waiting.append(band)
        start, end = waiting[0].start, band.start + band.length
        label = counted(len(waiting), "topic")
        is_last = at + 1 == len(bands) or bool(bands[at + 1].label)
        fits = len(label) * _WIDE_CHARACTER + _LABEL_GAP <= end - start
        if fits and (is_last or end - start >= _LEAST_OF_JOINED):
            names = f"{waiting[0].name} to {band.name}" if len(waiting) > 1 else band.name
            yield Band(start, end - start, label, names)
            waiting = []


def _numbers(heat: Heat, cell: int) -> list[tuple[int, int]]:
    """Return numbers in the middle of their columns: of every column, or of as many as have room side by side."""
    found: list[tuple[int, int]] = []
    free = 0.0
    for at, column in enumerate(heat.columns):
        number = column.first[1]
        half = len(str(number)) * _DIGIT / 2
        middle = at * cell + cell // 2
        # A topic's first partition is 0 and marks where the topic begins.
        if column.topic is not None and middle - half >= free - (0 if found else half):
            found.append((middle, number))
            free = middle + half + _NUMBER_GAP
    return found


def _cell_meaning(heat: Heat) -> str:
    brokers = max((len(row.brokers) for row in heat.rows), default=1)
    partitions = max((column.partitions for column in heat.columns), default=1)
    rows = "one broker" if brokers == 1 else f"up to {brokers:,} brokers"
    return f"{rows}, {'one partition' if partitions == 1 else f'up to {partitions:,} partitions'}"


def _legend(most: float) -> list[tuple[int, str]]:
    """Return the first, middle and last shade, each with the replicas per broker at which it begins."""
    found = [(first, most * (first - 1) / SHADES) for first in (1, SHADES // 2 + 1, SHADES)]
    return [(shade, f"over {compact(least)}") for shade, least in found]
