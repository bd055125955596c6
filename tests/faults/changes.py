"""Changes of routes while records flow: targets switched, trees replaced, a leaf lost and added again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.faults.runs import CLUSTERS, Place, Undo, nothing

Node = dict[str, Any]


def switch_a_target(place: Place, rng: Random) -> tuple[str, Undo]:
    """Switch a distributor to another leaf of its sibling subtree."""
    rows = [row for row in place.distributors() if len(row["allowed_targets"]) > 1]
    row = rng.choice(rows)
    target = rng.choice([name for name in row["allowed_targets"] if name != row["target"]])
    place.switch_target(row["cluster"], row["level"], target)
    return f"target of {row['cluster']}:{row['level']} switched from {row['target']} to {target}", nothing


def replace_the_tree(place: Place, rng: Random) -> tuple[str, Undo]:
    """Set another tree over all clusters, or over all but one, which goes on producing."""
    left_out = rng.choice([None, *CLUSTERS])
    tree = random_tree(rng, [name for name in CLUSTERS if name != left_out])
    before = place.tree()
    place.replace_tree(tree)
    without = f" without {left_out}" if left_out else ""
    return f"tree replaced{without}: {written(tree)}", lambda: place.replace_tree(before)


def lose_a_leaf(place: Place, rng: Random) -> tuple[str, Undo]:
    """Make a cluster unreachable and remove it from the tree; the undo brings it back."""
    lost = rng.choice(CLUSTERS)
    before = place.tree()
    place.link("refuse", lost)
    place.replace_tree(without(before, lost))

    def undo() -> None:
        place.link("heal", lost)
        place.replace_tree(before)

    return f"{lost} is lost and taken out of the tree", undo


def random_tree(rng: Random, names: Sequence[str]) -> Node:
    """Return a random tree over these leaves, with levels as low as possible, so that distributors are reused."""
    if len(names) == 1:
        return {"cluster": names[0]}
    shuffled = rng.sample(list(names), len(names))
    cut = rng.randrange(1, len(names))
    children = [random_tree(rng, shuffled[:cut]), random_tree(rng, shuffled[cut:])]
    return {"level": 1 + max(child.get("level", 0) for child in children), "children": children}


def without(tree: Node, lost: str) -> Node:
    """Return the tree without a leaf; its sibling replaces their parent."""
    if "cluster" in tree:
        return tree
    kept = [without(child, lost) for child in tree["children"] if child.get("cluster") != lost]
    return kept[0] if len(kept) == 1 else {**tree, "children": kept}


def written(tree: Node) -> str:
    """Write a tree on one line: 3(cluster-1 1(cluster-2 cluster-3))."""
    if "cluster" in tree:
        return str(tree["cluster"])
    return f"{tree['level']}({' '.join(written(child) for child in tree['children'])})"
