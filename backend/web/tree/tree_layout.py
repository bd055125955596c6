"""Layout of the Tree page's diagram: coordinates from a tree and its targets, as a pure function.

The diagram has three zones below each other:

    inner nodes    a row per level, so that equal levels are side by side; elbows lead down to the children
    leaves         a card per cluster, in the tree's order
    lanes          a horizontal lane per distributor, grouped into a band per level, lowest level on top

A distributor leaves its leaf at a port of its own, runs along its lane and climbs into a port of its target.
Nothing overlaps: lanes are shared only by distributors whose columns are apart, a label is on its lane
between the two columns next to its source, and lines go up and down only inside the columns' port zones.

Coordinates are SVG user units, y grows downwards; text is set in 12 units, of which a character takes about 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from backend.domain.tree.tree_shape import Inner, Node, leaves

MARGIN = 8.0
LEAST_WIDTH = 940.0
CARD_WIDTH = 172.0
CARD_GAP = 16.0
CARD_HEIGHT = 62.0
REASON_LINE = 15.0
INNER_WIDTH = 66.0
INNER_HEIGHT = 24.0
ROW_PITCH = 46.0
PORT_PITCH = 10.0
LABEL_WIDTH = 122.0
LABEL_HEIGHT = 34.0
LABEL_GAP = 8.0
LANE_PITCH = 39.0
ARROW_ROOM = 20.0
BAND_PADDING = 5.0
BAND_LABEL_WIDTH = 60.0
BAND_GAP = 4.0
CORNER = 12.0
HEAD_LENGTH = 9.0
# How far columns may be pulled apart to fill the least width.
MOST_EXTRA_GAP = 150.0


@dataclass(frozen=True)
class Box:
    """A rectangle, given by its upper left corner."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def centre(self) -> float:
        return self.top + self.height / 2

    def overlaps(self, other: Box) -> bool:
        """Return whether the two share more than an edge."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True)
class LeafPlace:
    """Place of a cluster's card; `name` is its path from the root."""

    cluster: str
    name: str
    box: Box


@dataclass(frozen=True)
class InnerPlace:
    """Place of an inner node; `name` is its path from the root, r0 being the left child of the root r."""

    name: str
    level: int
    box: Box
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class Branch:
    """Line from an inner node to one of its children, whose place and first leaf it has."""

    path: str
    place: str
    leaf: str

    @property
    def key(self) -> str:
        """Return its name within the drawing, which stays while the leaves do."""
        return f"{self.place[:-1]}-{self.leaf}"


@dataclass(frozen=True)
class Arrow:
    """Line of a distributor from (start, top) down to its lane and up to (end, top), and its label's box."""

    cluster: str
    level: int
    target: str
    start: float
    end: float
    top: float
    lane: float
    path: str
    head: str
    label: Box

    @property
    def key(self) -> str:
        """Return `cluster:level`, as the contract names it."""
        return f"{self.cluster}:{self.level}"


@dataclass(frozen=True)
class Band:
    """The lanes of one level."""

    level: int
    box: Box


@dataclass(frozen=True)
class Diagram:
    """All places, with the size in units."""

    width: float
    height: float
    leaves: tuple[LeafPlace, ...]
    inner: tuple[InnerPlace, ...]
    branches: tuple[Branch, ...]
    arrows: tuple[Arrow, ...]
    bands: tuple[Band, ...]


@dataclass(frozen=True)
class _Run:
    """A distributor by columns; `lane` counts from the leaves down."""

    cluster: str
    level: int
    target: str
    source_column: int
    target_column: int
    lane: int


def layout(root: Node, targets: Mapping[tuple[str, int], str], reason_lines: int = 0) -> Diagram:
    """Lay out a tree and the distributors in `targets`; `reason_lines` is room below each card's state."""
    names = leaves(root)
    lanes = _lanes(names, targets)
    ports = _ports(lanes, len(names))
    zones = [len(column) * PORT_PITCH for column in ports]
    cards = [max(CARD_WIDTH, zone + PORT_PITCH) for zone in zones]
    centres, width = _columns(zones, cards)
    rows = {level: row for row, level in enumerate(sorted(set(_levels(root)), reverse=True))}
    top, height = MARGIN + len(rows) * ROW_PITCH, CARD_HEIGHT + reason_lines * REASON_LINE
    boxes = {
        name: Box(centre - wide / 2, top, wide, height)
        for name, centre, wide in zip(names, centres, cards, strict=True)
    }
    inner: list[InnerPlace] = []
    branches: list[Branch] = []
    paths: dict[str, str] = {}
    _place_inner(root, "r", boxes, rows, inner, branches, paths)
    places = tuple(LeafPlace(name, paths[name], box) for name, box in boxes.items())
    lane_tops, bands, bottom = _lane_tops(lanes, top + height, width)
    port_of = {
        (run.cluster, run.level, column): centres[column] + (n - (len(ordered) - 1) / 2) * PORT_PITCH
        for column, ordered in enumerate(ports)
        for n, run in enumerate(ordered)
    }
    arrows = tuple(_arrow(run, port_of, centres, zones, lane_tops[run.lane], top + height) for run in lanes)
    return Diagram(width, bottom, places, tuple(inner), tuple(branches), arrows, bands)


def _levels(node: Node) -> Iterator[int]:
    if isinstance(node, Inner):
        yield node.level
        yield from _levels(node.left)
        yield from _levels(node.right)


def _lanes(names: tuple[str, ...], targets: Mapping[tuple[str, int], str]) -> list[_Run]:
    """Return every distributor with its lane: lowest level first, short ones nearest to the leaves."""
    column = {name: n for n, name in enumerate(names)}

    def span(key: tuple[str, int]) -> tuple[int, int]:
        ends = column[key[0]], column[targets[key]]
        return min(ends), max(ends)

    def order(key: tuple[str, int]) -> tuple[int, int, int, int]:
        first, last = span(key)
        return key[1], last - first, first, column[key[0]]

    found: list[_Run] = []
    lanes_below = 0
    for level, keys in groupby(sorted(targets, key=order), key=lambda key: key[1]):
        lanes: list[list[tuple[int, int]]] = []
        for key in keys:
            first, last = span(key)
            free = (n for n, taken in enumerate(lanes) if all(last < low or high < first for low, high in taken))
            lane = next(free, len(lanes))
            if lane == len(lanes):
                lanes.append([])
            lanes[lane].append((first, last))
            ends = column[key[0]], column[targets[key]]
            found.append(_Run(key[0], level, targets[key], *ends, lanes_below + lane))
        lanes_below += len(lanes)
    return found


def _ports(runs: list[_Run], columns: int) -> list[list[_Run]]:
    """Return the distributors that touch each column, left to right, so that lines nest instead of crossing.

    Lines to the left are on the left, those to the right on the right, and deeper lanes further inside.
    """
    left: list[list[_Run]] = [[] for _ in range(columns)]
    right: list[list[_Run]] = [[] for _ in range(columns)]
    for run in runs:
        first, last = sorted((run.source_column, run.target_column))
        right[first].append(run)
        left[last].append(run)
    return [
        sorted(to_left, key=lambda run: run.lane) + sorted(to_right, key=lambda run: -run.lane)
        for to_left, to_right in zip(left, right, strict=True)
    ]


def _columns(zones: list[float], cards: list[float]) -> tuple[list[float], float]:
    """Return the middle of each column, and the total width, from the widths of port zones and cards."""
    label_room = LABEL_WIDTH + 2 * LABEL_GAP
    gaps = [
        max(sum(two_cards) / 2 + CARD_GAP, sum(two_zones) / 2 + label_room)
        for two_cards, two_zones in zip(pairwise(cards), pairwise(zones), strict=True)
    ]
    outer = [max(cards[0] / 2 + MARGIN, zones[0] / 2 + BAND_LABEL_WIDTH), cards[-1] / 2 + MARGIN]
    needed = sum(gaps) + sum(outer)
    extra = max(0.0, LEAST_WIDTH - needed)
    spread = min(MOST_EXTRA_GAP, extra // len(gaps)) if gaps else 0.0
    centres = [outer[0] + (extra - spread * len(gaps)) / 2]
    for gap in gaps:
        centres.append(centres[-1] + gap + spread)
    return centres, max(needed, LEAST_WIDTH)


def _place_inner(
    node: Node,
    name: str,
    cards: Mapping[str, Box],
    rows: Mapping[int, int],
    inner: list[InnerPlace],
    branches: list[Branch],
    paths: dict[str, str],
) -> Box:
    """Place a node and its subtree; return its box. `paths` gets the path of each leaf."""
    if not isinstance(node, Inner):
        paths[node.cluster] = name
        return cards[node.cluster]
    boxes = [
        _place_inner(child, f"{name}{n}", cards, rows, inner, branches, paths)
        for n, child in enumerate((node.left, node.right))
    ]
    middle = sum(box.middle for box in boxes) / 2
    top = MARGIN + rows[node.level] * ROW_PITCH
    box = Box(middle - INNER_WIDTH / 2, top, INNER_WIDTH, INNER_HEIGHT)
    inner.append(InnerPlace(name, node.level, box, leaves(node)))
    for n, (child, child_box) in enumerate(zip((node.left, node.right), boxes, strict=True)):
        # Out sideways and then straight down: above a child's columns there is never another subtree.
        side = box.left if child_box.middle < middle else box.right
        turn = CORNER if child_box.middle > middle else -CORNER
        path = (
            f"M{side:g} {box.centre:g}H{child_box.middle - turn:g}"
            f"q{turn:g} 0 {turn:g} {CORNER:g}V{child_box.top:g}"
        )
        branches.append(Branch(path, f"{name}{n}", leaves(child)[0]))
    return box


def _lane_tops(runs: list[_Run], top: float, width: float) -> tuple[list[float], tuple[Band, ...], float]:
    """Return the y of each lane's line, the bands, and the total height."""
    levels: dict[int, set[int]] = {}
    for run in runs:
        levels.setdefault(run.level, set()).add(run.lane)
    y = top + ARROW_ROOM
    lanes: list[float] = []
    bands: list[Band] = []
    for level, numbers in sorted(levels.items()):
        height = 2 * BAND_PADDING + len(numbers) * LANE_PITCH
        bands.append(Band(level, Box(0, y, width, height)))
        lanes += [y + BAND_PADDING + (n + 0.5) * LANE_PITCH for n in range(len(numbers))]
        y += height + BAND_GAP
    return lanes, tuple(bands), (y - BAND_GAP if bands else top) + MARGIN


def _arrow(
    run: _Run,
    port_of: Mapping[tuple[str, int, int], float],
    centres: list[float],
    zones: list[float],
    lane: float,
    top: float,
) -> Arrow:
    start, end = (port_of[run.cluster, run.level, column] for column in (run.source_column, run.target_column))
    turn = CORNER if end > start else -CORNER
    path = (
        f"M{start:g} {top:g}V{lane - CORNER:g}q0 {CORNER:g} {turn:g} {CORNER:g}"
        f"H{end - turn:g}q{turn:g} 0 {turn:g} {-CORNER:g}V{top + HEAD_LENGTH:g}"
    )
    head = f"M{end:g} {top + 1:g}l4.5 {HEAD_LENGTH:g}h-9z"
    beside = run.source_column + (1 if end > start else -1)
    left, right = sorted((run.source_column, beside))
    free_left = centres[left] + zones[left] / 2
    free_right = centres[right] - zones[right] / 2
    middle = (free_left + free_right) / 2
    label = Box(middle - LABEL_WIDTH / 2, lane - LABEL_HEIGHT / 2, LABEL_WIDTH, LABEL_HEIGHT)
    return Arrow(
        cluster=run.cluster,
        level=run.level,
        target=run.target,
        start=start,
        end=end,
        top=top,
        lane=lane,
        path=path,
        head=head,
        label=label,
    )
