"""Coverage proof of a tree that is being edited: pair by pair, with the reason why a pair fails.

It also works for a tree whose levels are not in order yet, to show what that would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backend.domain.records import copy_flags
from backend.domain.records.copy_flags import HIGHEST_LEVEL, LOWEST_LEVEL
from backend.domain.tree import routes
from backend.domain.tree.routes import Targets
from backend.domain.tree.tree_shape import Inner, Leaf, Node, default_targets, leaves, siblings

MOST_SHOWN = 12
"""Maximum number of clusters in a table of pairs."""
_MOST_FAILING = 5


@dataclass(frozen=True)
class Cell:
    """One pair; `text` is the number of copies on the records' way."""

    text: str
    kind: str
    """One of own, good, missing, doubled."""
    said: str


@dataclass(frozen=True)
class ProofView:
    """The proof as the page shows it."""

    proven: bool
    pairs: int
    all_pairs: int
    failing: tuple[str, ...]
    more_failing: int
    clusters: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """(Origin, a cell for each cluster); empty if there are too many."""


def proof_of(root: dict[str, Any] | None, targets: Targets | None) -> ProofView | None:
    """Return the proof; None if the tree cannot be followed yet. `targets` None: the shape's default targets."""
    node = None if root is None else _followed(root)
    if node is None:
        return None
    names = leaves(node)
    if len(set(names)) != len(names):
        return None
    aims = default_targets(node) if targets is None else targets
    proof = routes.coverage(node, aims)
    bad = [*((pair, "missing") for pair in proof.missing), *((pair, "doubled") for pair in proof.doubled)]
    failing = tuple(_why(node, aims, *pair, kind) for pair, kind in bad[:_MOST_FAILING])
    shown = names if 1 < len(names) <= MOST_SHOWN else ()
    ways = routes.routes(node, aims) if shown else {}
    return ProofView(
        proven=proof.proven,
        pairs=proof.pairs,
        all_pairs=len(names) * (len(names) - 1),
        failing=failing,
        more_failing=max(0, len(bad) - _MOST_FAILING),
        clusters=shown,
        rows=tuple((origin, tuple(_cell(ways, origin, name) for name in shown)) for origin in shown),
    )


def _followed(document: dict[str, Any]) -> Node | None:
    """Return the nodes, whatever the order of their levels; None if a level is invalid."""
    if "cluster" in document:
        return Leaf(str(document["cluster"]))
    level = document.get("level")
    left, right = map(_followed, document["children"])
    if not isinstance(level, int) or not LOWEST_LEVEL <= level <= HIGHEST_LEVEL or left is None or right is None:
        return None
    return Inner(level, left, right)


def _cell(ways: Mapping[str, tuple[routes.Edge, ...]], origin: str, cluster: str) -> Cell:
    if origin == cluster:
        return Cell("·", "own", "its own")
    arrivals = sum(edge.target == cluster for edge in ways[origin])
    if arrivals > 1:
        return Cell(f"×{arrivals}", "doubled", f"{arrivals} times")
    if not arrivals:
        return Cell("✕", "missing", "never")
    copies = len(routes.way(ways[origin], origin, cluster))
    return Cell(str(copies), "good", f"by {copies} {'copy' if copies == 1 else 'copies'}")


def _why(node: Node, targets: Targets, origin: str, cluster: str, kind: str) -> str:
    if kind == "doubled":
        return f"{cluster} would get {origin}'s records more than once."
    said = f"{cluster} would not get {origin}'s records"
    reason = next(_skipping(node, targets, origin, cluster), "no distributor with these records leads there")
    return f"{said}: {reason}."


def _skipping(node: Node, targets: Targets, origin: str, cluster: str) -> Iterator[str]:
    """Yield the clusters that have the origin's records and could copy them towards the cluster, but skip them."""
    flags = routes.arrival_flags(node, targets, origin)
    for source, level, sibling in siblings(node):
        if source in flags and cluster in sibling and copy_flags.skips(flags[source], level):
            has, mask = copy_flags.text(flags[source]), copy_flags.text(copy_flags.mask(level))
            yield f"{source} has them with flags {has}, which meet the mask of level {level}, {mask}"
