"""Shape of a distribution tree: parsing of its document into nodes, and functions of the shape alone.

A tree is binary. Leaves are clusters; each inner node carries a level that is strictly below its parent's,
1..31; two nodes in different branches may share one. (Distribution model, "Unbalanced trees".)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, TreeInvalid
from backend.domain.records.copy_flags import HIGHEST_LEVEL, LOWEST_LEVEL

MOST_LEAVES = 1024


@dataclass(frozen=True)
class Leaf:
    """A leaf: one cluster."""

    cluster: str


@dataclass(frozen=True)
class Inner:
    """A conceptual inner node: no machine, only a level and two subtrees."""

    level: int
    left: Node
    right: Node


Node = Leaf | Inner


def parse(document: object, known_clusters: Collection[str]) -> Node:
    """Parse a tree from its JSON document `{"level", "children": [..]}` / `{"cluster"}`.

    Raises TreeInvalid with one FieldError for every wrong place, not only the first.
    """
    errors: list[FieldError] = []
    seen: dict[str, str] = {}
    node = _parse(document, "", HIGHEST_LEVEL + 1, known_clusters, seen, errors)
    if errors or node is None:
        places = "; ".join(f"{error.pointer or '/'}: {error.detail}" for error in errors[:3])
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        raise TreeInvalid(f"the tree is refused: {places}{more}", tuple(errors))
    return node


def _parse(
    document: object,
    pointer: str,
    parent_level: int,
    known: Collection[str],
    seen: dict[str, str],
    errors: list[FieldError],
) -> Node | None:
    def wrong(at: str, detail: str) -> None:
        errors.append(FieldError(at, detail))

    if not isinstance(document, dict):
        wrong(pointer, 'a node is an object: {"cluster": …} or {"level": …, "children": [left, right]}')
        return None
    extra = sorted(str(key) for key in document if key not in ("cluster", "level", "children"))
    if extra:
        wrong(pointer, f"unknown field {extra[0]!r}; a node has cluster, or level and children")
        return None
    if "cluster" in document:
        return _parse_leaf(document, pointer, known, seen, errors)
    # A wrong level must not make every level below it wrong too.
    level = _parse_level(document.get("level"), f"{pointer}/level", parent_level, errors)
    children = document.get("children")
    if not isinstance(children, list) or len(children) != 2:
        found = len(children) if isinstance(children, list) else "no list of"
        wrong(f"{pointer}/children", f"an inner node has exactly two children, found {found}")
        children = children if isinstance(children, list) else []
    if pointer.count("/children/") >= HIGHEST_LEVEL:
        wrong(f"{pointer}/children", f"deeper than {HIGHEST_LEVEL} levels")
        return None
    nodes = [
        _parse(child, f"{pointer}/children/{n}", level or parent_level, known, seen, errors)
        for n, child in enumerate(children[:MOST_LEAVES])
    ]
    if level is None or len(nodes) != 2 or nodes[0] is None or nodes[1] is None:
        return None
    return Inner(level, nodes[0], nodes[1])


def _parse_leaf(
    document: dict[object, object],
    pointer: str,
    known: Collection[str],
    seen: dict[str, str],
    errors: list[FieldError],
) -> Leaf | None:
    cluster = document["cluster"]
    at = f"{pointer}/cluster"
    if len(document) > 1:
        errors.append(FieldError(pointer, "a node is either a cluster or has level and children, not both"))
        return None
    if not isinstance(cluster, str):
        errors.append(FieldError(at, "a cluster is named by a string"))
        return None
    if cluster not in known:
        errors.append(FieldError(at, f"unknown cluster {cluster!r}; add it with POST /clusters first"))
        return None
    if cluster in seen:
        errors.append(FieldError(at, f"cluster {cluster!r} is in the tree already, at {seen[cluster]}"))
        return None
    seen[cluster] = at
    return Leaf(cluster)


def _parse_level(level: object, pointer: str, parent_level: int, errors: list[FieldError]) -> int | None:
    if not isinstance(level, int) or isinstance(level, bool):
        errors.append(FieldError(pointer, f"a level is a whole number {LOWEST_LEVEL}..{HIGHEST_LEVEL}"))
        return None
    if not LOWEST_LEVEL <= level <= HIGHEST_LEVEL:
        errors.append(FieldError(pointer, f"level {level} is outside {LOWEST_LEVEL}..{HIGHEST_LEVEL}"))
        return None
    if level >= parent_level:
        errors.append(FieldError(pointer, f"level {level} is not below its parent's, {parent_level}"))
        return None
    return level


def document(node: Node) -> dict[str, object]:
    """Return the JSON document of a tree; parse(document(node), …) gives the same tree."""
    if isinstance(node, Leaf):
        return {"cluster": node.cluster}
    return {"level": node.level, "children": [document(node.left), document(node.right)]}


def leaves(node: Node) -> tuple[str, ...]:
    """Return the clusters from left to right."""
    if isinstance(node, Leaf):
        return (node.cluster,)
    return leaves(node.left) + leaves(node.right)


def siblings(node: Node) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield (cluster, level, leaves of the sibling subtree at that level) for each distributor.

    A leaf has one distributor for each level above it. The result is ordered by cluster from left to right, then
    from the lowest level up; sibling leaves are in order from left to right.
    """
    found = sorted(_siblings(node), key=lambda row: (row[0], row[1]))
    names = leaves(node)
    for position, level, sibling in found:
        yield names[position], level, sibling


def _siblings(node: Node, first: int = 0) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    if isinstance(node, Leaf):
        return
    left, right = leaves(node.left), leaves(node.right)
    for n in range(len(left)):
        yield first + n, node.level, right
    for n in range(len(right)):
        yield first + len(left) + n, node.level, left
    yield from _siblings(node.left, first)
    yield from _siblings(node.right, first + len(left))


def default_targets(node: Node) -> dict[tuple[str, int], str]:
    """Return the default target of each distributor (cluster, level).

    Leaf i of a subtree targets leaf i mod q of its sibling's q leaves, counted from 0, left to right
    (docs/concepts.md, "Tree, leaves and levels").
    """
    targets: dict[tuple[str, int], str] = {}
    for side, sibling, level in _pairs(node):
        for i, cluster in enumerate(side):
            targets[cluster, level] = sibling[i % len(sibling)]
    return targets


def _pairs(node: Node) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], int]]:
    """Yield each subtree below an inner node with its sibling and the level between them."""
    if isinstance(node, Leaf):
        return
    left, right = leaves(node.left), leaves(node.right)
    yield left, right, node.level
    yield right, left, node.level
    yield from _pairs(node.left)
    yield from _pairs(node.right)
