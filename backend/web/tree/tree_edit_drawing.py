"""Layout of a tree that is being edited: leaves side by side, each node above its children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.domain.tree.tree_edit import clusters_of

LEAF_WIDTH, LEAF_HEIGHT, GAP = 132.0, 46.0, 14.0
INNER_WIDTH, INNER_HEIGHT = 84.0, 30.0
ROW = 74.0
MARGIN = 12.0


@dataclass(frozen=True)
class NodeView:
    """One node; x and y are its upper left corner."""

    place: str
    cluster: str | None
    level: int | None
    below: tuple[str, ...]
    """Clusters below the node, from left to right."""
    problems: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def name(self) -> str:
        """Return the node's name in lists and labels."""
        return self.cluster or f"level {self.level} over {', '.join(self.below)}"


@dataclass(frozen=True)
class Sketch:
    """Drawing of a tree; its nodes are ordered parents before children."""

    nodes: tuple[NodeView, ...]
    lines: tuple[str, ...]
    """Paths from each node to its children."""
    width: float
    height: float


def sketch(root: dict[str, Any], problems: Mapping[str, Sequence[str]]) -> Sketch:
    """Lay out a tree; `problems` are given by place."""
    found: list[NodeView] = []
    columns = _draw(root, "r", 0, 0, problems, found)
    found.sort(key=lambda node: node.place)
    by_place = {node.place: node for node in found}
    lines = [
        f"M{node.middle:g} {node.y + node.height:g} V{child.y - 16:g} H{child.middle:g} V{child.y:g}"
        for node in found
        for child in (by_place.get(f"{node.place}0"), by_place.get(f"{node.place}1"))
        if child is not None
    ]
    height = max(node.y + node.height for node in found) + MARGIN
    width = 2 * MARGIN + columns * (LEAF_WIDTH + GAP) - GAP
    return Sketch(tuple(found), tuple(lines), width, height)


def _draw(
    node: dict[str, Any],
    place: str,
    column: int,
    depth: int,
    problems: Mapping[str, Sequence[str]],
    found: list[NodeView],
) -> int:
    """Place a node whose leftmost leaf is in `column`; return the number of columns that it takes."""
    below, told, y = clusters_of(node), tuple(problems.get(place, ())), MARGIN + depth * ROW
    if "cluster" in node:
        x = MARGIN + column * (LEAF_WIDTH + GAP)
        found.append(NodeView(place, node["cluster"], None, below, told, x, y, LEAF_WIDTH, LEAF_HEIGHT))
        return 1
    taken = 0
    for side, child in enumerate(node["children"]):
        taken += _draw(child, f"{place}{side}", column + taken, depth + 1, problems, found)
    middles = [each.middle for each in found if each.place in (f"{place}0", f"{place}1")]
    x = sum(middles) / 2 - INNER_WIDTH / 2
    found.append(NodeView(place, None, node["level"], below, told, x, y, INNER_WIDTH, INNER_HEIGHT))
    return taken
