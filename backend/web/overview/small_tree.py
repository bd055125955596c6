"""The tree in little: one line for each branch, coloured by the distributors that copy out of its subtree.

The root is on the left, and each cluster has a row on the right, in the tree's order. Coordinates are SVG user
units, y grows downwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.domain.base.words import counted
from backend.domain.distribution.distributor_states import WORST_FIRST, worst
from backend.domain.tree.tree_shape import Inner, Node, leaves
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.distribution.distributors import DistributorRow, Observation
from backend.web.words.figures import shortened

WIDTH = 320.0
NAME_WIDTH = 168.0
ROW = 22.0
LOW_ROW = 15.0
MANY = 16
"""Clusters from which rows are low."""
_MARGIN = 8.0
_LONGEST = 22
_RUNNING = "running"


@dataclass(frozen=True)
class SmallBranch:
    """Line from an inner node to a child; `state`: the worst of the distributors that copy out of the child."""

    path: str
    state: str
    level: int
    title: str


@dataclass(frozen=True)
class SmallLeaf:
    """Row of a cluster."""

    name: str
    shown: str
    state: str
    x: float
    y: float


@dataclass(frozen=True)
class SmallTree:
    """The drawing, and one sentence for those who do not see it."""

    width: float
    height: float
    branches: tuple[SmallBranch, ...]
    leaves: tuple[SmallLeaf, ...]
    sentence: str


def small_tree(root: Node, clusters: Iterable[ClusterRow], distributors: Iterable[DistributorRow]) -> SmallTree:
    """Draw a tree with the states of its clusters and distributors."""
    names = leaves(root)
    states = {row.name: row.state for row in clusters}
    of_edges = {(row.cluster, row.level): _state(row.observed) for row in distributors if row.observed is not None}
    row = ROW if len(names) < MANY else LOW_ROW
    places = {name: _MARGIN + (number + 0.5) * row for number, name in enumerate(names)}
    pitch = (WIDTH - NAME_WIDTH - 2 * _MARGIN) / max(1, _depth(root))
    branches: list[SmallBranch] = []
    _place(root, 0, pitch, places, of_edges, branches)
    right = WIDTH - NAME_WIDTH - _MARGIN
    drawn = tuple(
        SmallLeaf(name, shortened(name, _LONGEST), states.get(name, "offline"), right, places[name])
        for name in names
    )
    return SmallTree(
        width=WIDTH,
        height=2 * _MARGIN + len(names) * row,
        branches=tuple(branches),
        leaves=drawn,
        sentence=_sentence(drawn, of_edges),
    )


def _state(seen: Observation) -> str:
    return "late" if seen.in_time is False and seen.state == _RUNNING else seen.state


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, (node.left, node.right))) if isinstance(node, Inner) else 0


def _place(
    node: Node,
    depth: int,
    pitch: float,
    places: Mapping[str, float],
    states: Mapping[tuple[str, int], str],
    found: list[SmallBranch],
) -> float:
    """Add the branches of a subtree; return the y of its top node."""
    if not isinstance(node, Inner):
        return places[node.cluster]
    children = (node.left, node.right)
    tops = [_place(child, depth + 1, pitch, places, states, found) for child in children]
    x, y = _MARGIN + depth * pitch, sum(tops) / 2
    for child, top in zip(children, tops, strict=True):
        inside = leaves(child)
        end = x + pitch if isinstance(child, Inner) else WIDTH - NAME_WIDTH - 2 * _MARGIN
        state = worst((states[name, node.level] for name in inside), _RUNNING)
        title = f"Level {node.level}, from {counted(len(inside), 'cluster')}: {state}"
        found.append(SmallBranch(f"M{x:g} {y:g}V{top:g}H{end:g}", state, node.level, title))
    return y


def _sentence(drawn: Iterable[SmallLeaf], states: Mapping[tuple[str, int], str]) -> str:
    clusters = list(drawn)
    away = [each.name for each in clusters if each.state == "offline"]
    counts = {state: sum(each == state for each in states.values()) for state in WORST_FIRST}
    said = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    offline = f", {len(away):,} offline" if away else ""
    return f"Tree of {counted(len(clusters), 'cluster')}{offline}; distributors: {said or 'none'}"
