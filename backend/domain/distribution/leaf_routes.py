"""Inbound edges of each leaf with the origins that they carry; a change of them requires a barrier on the leaf.

Old and new edges into a leaf have different sources, so fencing one does not fence the other. A leaf enters a new
version of its routes by fencing every transactional id that may have copied to it, and only then are its new edges
opened (decision 16). A change that leaves a leaf's inbound edges as they are needs no barrier there.

    wanted = entered --(tree, target, re-rooting)--> wanted > entered --(all inbound fenced)--> wanted = entered
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from backend.domain.tree import routes, tree_shape
from backend.domain.tree.tree_shape import Node

Distributor = tuple[str, int]
"""(cluster, level)."""
Inbound = dict[Distributor, dict[str, int]]
"""Edges into one leaf: distributor -> (origin -> flags on the copies), for the origins that each edge carries."""


def inbound(root: Node, targets: Mapping[Distributor, str]) -> dict[str, Inbound]:
    """Return the edges into every leaf, including those on no origin's route, which carry nothing."""
    found: dict[str, Inbound] = {leaf: {} for leaf in tree_shape.leaves(root)}
    for distributor, target in targets.items():
        found[target][distributor] = {}
    for origin, edges in routes.routes(root, targets).items():
        for edge in edges:
            found[edge.target][edge.source, edge.level][origin] = edge.flags
    return found


def digest(edges: Inbound, rerooted: int) -> str:
    """Return a digest that identifies one version of a leaf's routes.

    `rerooted` is the position of the last re-rooting, which may change every leaf's routes.
    """
    rows = [
        f"{cluster}:{level}:{','.join(f'{name}={flags}' for name, flags in sorted(carried.items()))}"
        for (cluster, level), carried in sorted(edges.items())
    ]
    return hashlib.sha256(f"{rerooted};{';'.join(rows)}".encode()).hexdigest()[:32]
