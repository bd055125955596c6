"""Trees for tests: the source document's two, and random ones."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from backend.domain.tree import tree_shape
from backend.domain.tree.tree_shape import Inner, Leaf, Node

UNBALANCED: dict[str, Any] = {
    "level": 3,
    "children": [
        {
            "level": 2,
            "children": [{"cluster": "1"}, {"level": 1, "children": [{"cluster": "2"}, {"cluster": "3"}]}],
        },
        {"level": 1, "children": [{"cluster": "4"}, {"cluster": "5"}]},
    ],
}
BALANCED: dict[str, Any] = {
    "level": 3,
    "children": [
        {"level": 1, "children": [{"cluster": "1"}, {"cluster": "2"}]},
        {"level": 1, "children": [{"cluster": "3"}, {"cluster": "4"}]},
    ],
}


def parsed(document: dict[str, Any]) -> Node:
    """A known-good document as nodes."""
    return tree_shape.parse(document, frozenset("123456789"))


def random_tree(source: random.Random, most_leaves: int) -> Node:
    """Any legal tree of 2..most_leaves leaves named 1, 2, …; levels skip at random."""
    count = source.randint(2, most_leaves)
    names = iter(range(1, count + 1))

    def grow(size: int, highest: int) -> Node:
        if size == 1:
            return Leaf(str(next(names)))
        # Enough levels must be left below for the deeper side.
        level = source.randint(min(size - 1, highest), highest)
        left = source.randint(1, size - 1)
        return Inner(level, grow(left, level - 1), grow(size - left, level - 1))

    return grow(count, 31)


def random_targets(source: random.Random, root: Node) -> dict[tuple[str, int], str]:
    """Any allowed target for every distributor."""
    return {(cluster, level): source.choice(allowed) for cluster, level, allowed in tree_shape.siblings(root)}


seeds = st.integers(min_value=0, max_value=2**32)
