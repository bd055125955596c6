"""A grid of brokers and partitions that shows replicas and stays small enough to read.

Rows are brokers, columns are partitions. If there are too many, a row is several brokers of a rack and a column
several partitions of a topic; with more racks or topics than can have rows or columns of their own, neighbours are
combined. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from backend.web.placement.placement_compared import Broker, Compared, Ints, Spread

MOST_ROWS, MOST_COLUMNS = 60, 60
SHADES = 8
_FAR_OUT = 4
"""Multiple of the median above which all cells have the darkest shade, so that outliers do not pale the others."""


@dataclass(frozen=True)
class Row:
    """A row of the grid: one broker or several."""

    brokers: Sequence[Broker]

    @property
    def rack(self) -> str | None:
        """Return the rack of all brokers in the row; None if they are in several."""
        racks = {broker.rack for broker in self.brokers}
        return racks.pop() if len(racks) == 1 else None

    @property
    def kind(self) -> str:
        """Return the kind of all brokers in the row; empty if it differs."""
        kinds = {broker.kind for broker in self.brokers}
        return kinds.pop() if len(kinds) == 1 else ""


@dataclass(frozen=True)
class Column:
    """A column of the grid: one partition, or those from `first` to `last`, given as topic and number."""

    first: tuple[str, int]
    last: tuple[str, int]
    partitions: int

    @property
    def topic(self) -> str | None:
        """Return the topic of all partitions in the column; None if they belong to several."""
        return self.first[0] if self.first[0] == self.last[0] else None


@dataclass(frozen=True)
class Grid:
    """Replicas by row and column, and the leading and moving ones among them."""

    replicas: Ints
    leaders: Ints
    moving: Ints


@dataclass(frozen=True, kw_only=True)
class Heat:
    """Both grids, with the scale of shades from 0 (nothing) to SHADES."""

    rows: Sequence[Row]
    columns: Sequence[Column]
    before: Grid
    after: Grid
    shade_of: float
    """Replicas per broker in a cell at which the darkest shade begins."""

    @property
    def is_exact(self) -> bool:
        """Return True if each cell is one partition on one broker."""
        return all(len(row.brokers) == 1 for row in self.rows) and all(c.partitions == 1 for c in self.columns)

    def shades(self, grid: Grid) -> Ints:
        """Return the shades by row and column; if a cell is a single replica, leaders are darkest."""
        if self.is_exact:
            return np.where(grid.leaders > 0, SHADES, np.minimum(grid.replicas, 1) * (SHADES // 2))
        found: Ints = np.ceil(SHADES * _each(self.rows, grid) / self.shade_of).astype(np.int64)
        return np.minimum(found, SHADES)


def heat(compared: Compared, most_rows: int = MOST_ROWS, most_columns: int = MOST_COLUMNS) -> Heat:
    """Build the grids with at most this many rows and columns."""
    brokers, places = compared.brokers, compared.places
    row_ends = cut(_sizes((broker.rack, broker.kind) for broker in brokers), most_rows)
    column_ends = cut(_sizes(topic for topic, _ in places), most_columns)
    rows = [Row(brokers[first:end]) for first, end in row_ends]
    columns = [Column(places[first], places[end - 1], end - first) for first, end in column_ends]
    row_of, column_of = (_within(each) for each in (row_ends, column_ends))
    before, after = (
        _grid(spread, row_of, column_of, len(rows), len(columns)) for spread in (compared.before, compared.after)
    )
    found = np.concatenate([_each(rows, grid).ravel() for grid in (before, after)])
    found = found[found > 0]
    darkest = min(float(found.max()), _FAR_OUT * float(np.median(found))) if len(found) else 1.0
    return Heat(rows=rows, columns=columns, before=before, after=after, shade_of=darkest)


def cut(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Divide consecutive items, in groups of these sizes, into at most `most` runs (first, end).

    If possible, each run is one item; else no run crosses the end of a group, and larger groups have more runs. If
    groups are so many that hardly any could have two runs, all runs have equal length.
    """
    total = sum(sizes)
    if total <= most:
        return [(at, at + 1) for at in range(total)]
    if 4 * len(sizes) > 3 * most:
        return list(pairwise(total * at // most for at in range(most + 1)))
    ends, found = 0, []
    for size in sizes:
        parts = 1 + (most - len(sizes)) * size // total
        found += [
            (ends + first, ends + end) for first, end in pairwise(size * at // parts for at in range(parts + 1))
        ]
        ends += size
    return found


def _sizes(groups: Iterable[object]) -> list[int]:
    return [sum(1 for _ in group) for _, group in groupby(groups)]


def _within(ends: Sequence[tuple[int, int]]) -> Ints:
    return np.repeat(np.arange(len(ends)), np.array([end - first for first, end in ends], dtype=np.int64))


def _grid(spread: Spread, row_of: Ints, column_of: Ints, rows: int, columns: int) -> Grid:
    cells = row_of[spread.brokers] * columns + column_of[spread.owners]

    def counted(some: Ints) -> Ints:
        return np.bincount(some, minlength=rows * columns).reshape(rows, columns).astype(np.int64)

    return Grid(counted(cells), counted(cells[spread.leads]), counted(cells[spread.moves]))


def _each(rows: Sequence[Row], grid: Grid) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the replicas per broker of each row."""
    sizes = np.array([len(row.brokers) for row in rows], dtype=np.float64)
    found: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = grid.replicas / sizes.reshape(-1, 1)
    return found
