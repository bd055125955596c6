"""Outline of a tree in which some subtrees are collapsed, and the edges between its ends.

An end is what edges start and end at: a leaf, or a collapsed subtree in place of its leaves. The distributors of
one level between the same two ends are one edge; those within a collapsed subtree are none.

Places name nodes as in the editor of the tree: `r` is the root, `r0` its left child, `r01` that one's right child.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from backend.domain.tree.tree_shape import Leaf, Node, leaves

ROOT = "r"
COLLAPSED = "~"
"""Sign before the place of a collapsed subtree in keys; no cluster's name begins with it."""
_SHARE = 6
"""Subtrees that are collapsed automatically have at most a sixth of the leaves, so that the shape is visible."""


@dataclass(frozen=True)
class End:
    """A leaf, or a collapsed subtree; only the latter has a level."""

    key: str
    place: str
    level: int | None
    clusters: tuple[str, ...]


@dataclass(frozen=True)
class Fork:
    """An inner node that is not collapsed."""

    place: str
    level: int
    clusters: tuple[str, ...]
    left: Part
    right: Part

    @property
    def children(self) -> tuple[Part, Part]:
        """Return both children, from left to right."""
        return self.left, self.right


Part = Fork | End


@dataclass(frozen=True)
class Edge:
    """Distributors of one level from one end to another."""

    key: str
    """Key of its distributor, `cluster:level`; of several that start at a collapsed subtree, `~r0:level:end`."""
    level: int
    source: str
    target: str
    distributors: tuple[str, ...]

    @property
    def starts_at_leaf(self) -> bool:
        """Return whether its key begins with where it starts."""
        return self.key.startswith(f"{self.source}:")


def outline(root: Node, collapsed: Collection[str]) -> Part:
    """Return the outline with these places collapsed. The root stays: without it there would be nothing to see."""
    return _part(root, ROOT, frozenset(collapsed) - {ROOT})


def _part(node: Node, place: str, collapsed: frozenset[str]) -> Part:
    if isinstance(node, Leaf):
        return End(node.cluster, place, None, (node.cluster,))
    if place in collapsed:
        return End(f"{COLLAPSED}{place}", place, node.level, leaves(node))
    left, right = (_part(child, f"{place}{n}", collapsed) for n, child in enumerate((node.left, node.right)))
    return Fork(place, node.level, (*left.clusters, *right.clusters), left, right)


def ends(part: Part) -> tuple[End, ...]:
    """Return the ends from left to right."""
    return (part,) if isinstance(part, End) else ends(part.left) + ends(part.right)


def forks(part: Part) -> Iterator[Fork]:
    """Yield the inner nodes, each before those below it."""
    if isinstance(part, Fork):
        yield part
        for child in part.children:
            yield from forks(child)


def edges(part: Part, targets: Mapping[tuple[str, int], str]) -> tuple[Edge, ...]:
    """Return the edges by source from left to right, then by level, then by target."""
    rows = {end.key: row for row, end in enumerate(ends(part))}
    end_of = {cluster: end for end in ends(part) for cluster in end.clusters}
    found: dict[tuple[int, int, int], list[tuple[str, int]]] = {}
    for (cluster, level), target in targets.items():
        source, to = rows[end_of[cluster].key], rows[end_of[target].key]
        if source != to:
            found.setdefault((source, level, to), []).append((cluster, level))
    keys = tuple(rows)
    made = []
    for (source, level, to), members in sorted(found.items()):
        start, end = keys[source], keys[to]
        names = tuple(f"{cluster}:{level}" for cluster, _ in members)
        key = names[0] if len(names) == 1 else f"{start}:{level}:{end}"
        made.append(Edge(key, level, start, end, names))
    return tuple(made)


def inner_places(node: Node, place: str = ROOT) -> Iterator[str]:
    """Yield the places of all inner nodes."""
    if not isinstance(node, Leaf):
        yield place
        yield from inner_places(node.left, f"{place}0")
        yield from inner_places(node.right, f"{place}1")


def quiet_places(root: Node, troubled: Collection[str]) -> frozenset[str]:
    """Return the places of the largest subtrees that have no troubled cluster and a small share of the leaves."""
    most = max(2, len(leaves(root)) // _SHARE)
    return frozenset(_quiet(root, ROOT, frozenset(troubled), most))


def _quiet(node: Node, place: str, troubled: frozenset[str], most: int) -> Iterator[str]:
    if isinstance(node, Leaf):
        return
    inside = leaves(node)
    if place != ROOT and len(inside) <= most and not troubled.intersection(inside):
        yield place
        return
    yield from _quiet(node.left, f"{place}0", troubled, most)
    yield from _quiet(node.right, f"{place}1", troubled, most)
