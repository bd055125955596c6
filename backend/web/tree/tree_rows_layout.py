"""Layout of the drawing of large trees: coordinates from an outline and its edges, as a pure function.

The drawing has four zones beside each other:

    inner nodes    a column per level, the root on the left; elbows lead right to the children
    ends           a row per leaf or collapsed subtree, in the tree's order
    bands          a column per level, the lowest first, in which each row has a place of its own

An edge starts at a port of its row in the band of its level, and ends as an arc, right of the ports, at the port
of its target's row. Its label is left of the port where it starts. So no two labels share a place, arcs run only
between ports and the band's right side, and an arc never covers a leaf or a label, however many edges there are.

Coordinates are SVG user units, y grows downwards; text is set in 11 to 12 units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from backend.web.tree.tree_layout import Band, Box, Branch
from backend.web.tree.tree_outline import Edge, End, Fork, Part, ends, forks

MARGIN = 8.0
HEADER = 26.0
ROW_PITCH = 26.0
COLLAPSED_PITCH = 46.0
ROW_GAP = 6.0
INDENT = 28.0
FORK_WIDTH = 26.0
FORK_HEIGHT = 18.0
END_WIDTH = 170.0
RAIL_ROOM = 12.0
LABEL_WIDTH = 100.0
LABEL_HEIGHT = 18.0
LABEL_PITCH = 20.0
LABEL_GAP = 4.0
PORT_GAP = 8.0
BAND_GAP = 4.0
BAND_PADDING = 8.0
LEAST_BULGE, MOST_BULGE = 16.0, 52.0
_BULGE_BY_DISTANCE = 0.07
_UPWARDS = 0.78
"""Ratio by which arcs upwards bulge less: otherwise those of a pair of leaves would lie on each other."""
HEAD_LENGTH = 6.0
_OUT, _IN = -4.0, 5.0
"""Distance of a leaf's ports from the middle of its row, for what leaves it and what comes."""


@dataclass(frozen=True)
class EndPlace:
    """Place of a leaf or a collapsed subtree."""

    end: End
    box: Box


@dataclass(frozen=True)
class ForkPlace:
    """Place of an inner node."""

    fork: Fork
    box: Box


@dataclass(frozen=True)
class EdgePlace:
    """Arc of an edge from (port, start) to the arrowhead at (port, end), and its label's box."""

    edge: Edge
    port: float
    start: float
    end: float
    bulge: float
    path: str
    head: str
    label: Box


@dataclass(frozen=True)
class RowsDiagram:
    """All places, with the size in units."""

    width: float
    height: float
    ends: tuple[EndPlace, ...]
    forks: tuple[ForkPlace, ...]
    branches: tuple[Branch, ...]
    edges: tuple[EdgePlace, ...]
    bands: tuple[Band, ...]
    rails: str
    """Path along each row as far as it has ports, and along the ports of each band."""


@dataclass(frozen=True)
class _Ports:
    """Ports of a band."""

    left: float
    x: float


def lay_out_rows(part: Part, edges: Sequence[Edge]) -> RowsDiagram:
    """Lay out an outline and its edges."""
    rows, bottom = _rows(ends(part), edges)
    levels = sorted({fork.level for fork in forks(part)}, reverse=True)
    columns = {level: MARGIN + n * INDENT for n, level in enumerate(levels)}
    left = MARGIN + len(levels) * INDENT + ROW_GAP
    places = tuple(EndPlace(end, Box(left, top, END_WIDTH, height)) for end, top, height in rows)
    boxes = {place.end.key: place.box for place in places}
    fork_places: list[ForkPlace] = []
    branches: list[Branch] = []
    _place(part, boxes, columns, fork_places, branches)
    middles = {key: box.centre for key, box in boxes.items()}
    slots = _slots(middles, edges)
    ports, bands, width = _bands(edges, slots, middles, left + END_WIDTH + RAIL_ROOM, bottom)
    drawn = tuple(_edge(edge, slots[edge.key], middles[edge.target], ports[edge.level]) for edge in edges)
    rails = _rails(places, edges, slots, ports)
    return RowsDiagram(width, bottom + MARGIN, places, tuple(fork_places), tuple(branches), drawn, bands, rails)


def _rows(found: Sequence[End], edges: Sequence[Edge]) -> tuple[list[tuple[End, float, float]], float]:
    """Return each end with its top and height, and the lowest bottom; a row has room for all labels of a band."""
    starting = Counter((edge.source, edge.level) for edge in edges)
    most: dict[str, int] = {}
    for (source, _), count in starting.items():
        most[source] = max(count, most.get(source, 0))
    y, rows = MARGIN + HEADER, []
    for end in found:
        least = ROW_PITCH if end.level is None else COLLAPSED_PITCH
        pitch = max(least, most.get(end.key, 0) * LABEL_PITCH + ROW_GAP)
        rows.append((end, y + ROW_GAP / 2, pitch - ROW_GAP))
        y += pitch
    return rows, y


def _place(
    part: Part,
    boxes: Mapping[str, Box],
    columns: Mapping[int, float],
    found: list[ForkPlace],
    branches: list[Branch],
) -> Box:
    """Place a node and its subtree; return its box."""
    if isinstance(part, End):
        return boxes[part.key]
    children = [_place(child, boxes, columns, found, branches) for child in part.children]
    middle = sum(box.centre for box in children) / 2
    box = Box(columns[part.level], middle - FORK_HEIGHT / 2, FORK_WIDTH, FORK_HEIGHT)
    found.append(ForkPlace(part, box))
    for child, to in zip(part.children, children, strict=True):
        edge = box.top if to.centre < middle else box.bottom
        path = f"M{_at(box.middle)} {_at(edge)}V{_at(to.centre)}H{_at(to.left)}"
        branches.append(Branch(path, child.place, ends(child)[0].key))
    return box


def _slots(middles: Mapping[str, float], edges: Sequence[Edge]) -> dict[str, float]:
    """Return the y of each edge's label: those of one row and band are below each other."""
    cells: dict[tuple[str, int], list[Edge]] = {}
    for edge in edges:
        cells.setdefault((edge.source, edge.level), []).append(edge)
    return {
        edge.key: middles[source] + (n - (len(members) - 1) / 2) * LABEL_PITCH
        for (source, _), members in cells.items()
        for n, edge in enumerate(members)
    }


def _bulge(start: float, end: float) -> float:
    wide = min(MOST_BULGE, LEAST_BULGE + _BULGE_BY_DISTANCE * abs(end - start))
    return wide if end > start else wide * _UPWARDS


def _bands(
    edges: Sequence[Edge],
    slots: Mapping[str, float],
    middles: Mapping[str, float],
    left: float,
    bottom: float,
) -> tuple[dict[int, _Ports], tuple[Band, ...], float]:
    """Return the ports of each level that has edges, the bands, and the total width."""
    bulges: dict[int, int] = {}
    for edge in edges:
        # Whole units, so that the ports' coordinates are short: there are some hundred of them.
        wide = ceil(_bulge(slots[edge.key], middles[edge.target]))
        bulges[edge.level] = max(wide, bulges.get(edge.level, 0))
    ports, bands, x = {}, [], left
    for level, bulge in sorted(bulges.items()):
        port = x + LABEL_GAP + LABEL_WIDTH + PORT_GAP
        ports[level] = _Ports(x + LABEL_GAP, port)
        right = port + bulge + BAND_PADDING
        bands.append(Band(level, Box(x, MARGIN, right - x, bottom - MARGIN)))
        x = right + BAND_GAP
    return ports, tuple(bands), (x - BAND_GAP if bands else left) + MARGIN


def _edge(edge: Edge, slot: float, row: float, ports: _Ports) -> EdgePlace:
    bulge = _bulge(slot, row)
    start, end, x = slot + _OUT, row + _IN, ports.x
    # A cubic curve reaches three quarters of the distance of its control points.
    reach, down = _at(bulge * 4 / 3), _at(end - start)
    path = f"M{_at(x)} {_at(start)}c{reach} 0 {reach} {down} {HEAD_LENGTH:g} {down}"
    head = f"M{_at(x)} {_at(end)}l{HEAD_LENGTH:g}-3.5v7z"
    label = Box(ports.left, slot - LABEL_HEIGHT / 2, LABEL_WIDTH, LABEL_HEIGHT)
    return EdgePlace(edge, x, start, end, bulge, path, head, label)


def _rails(
    places: Sequence[EndPlace], edges: Sequence[Edge], slots: Mapping[str, float], ports: Mapping[int, _Ports]
) -> str:
    """Return a line along each row to its last port, and one along the ports of each row in each band."""
    heights: dict[str, dict[int, set[float]]] = {place.end.key: {} for place in places}
    middles = {place.end.key: place.box.centre for place in places}
    for edge in edges:
        heights[edge.source].setdefault(edge.level, set()).add(slots[edge.key] + _OUT)
        heights[edge.target].setdefault(edge.level, set()).add(middles[edge.target] + _IN)
    drawn = []
    for place in places:
        touched, y = heights[place.end.key], place.box.centre
        if touched:
            drawn.append(f"M{_at(place.box.right)} {_at(y)}H{_at(max(ports[level].x for level in touched))}")
        for level, found in touched.items():
            drawn.append(f"M{_at(ports[level].x)} {_at(min(found))}V{_at(max(found))}")
    return "".join(drawn)


def _at(value: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    return f"{round(value, 1):g}"
