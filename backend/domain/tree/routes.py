"""Routes: the path that each origin's records take through a tree, and the proof that it reaches every leaf once.

Rule (distribution model): a record born on a cluster has flags 0; the distributor of level n copies a record
unless its flags meet the mask of n, and adds its own bit. Followed from one origin this gives the origin's
**route**: the edges that its records take, and the flags that they carry on each leaf.

Why every cluster gets every record exactly once, whatever the targets, while they stay as they are. Claim:
a record that arrives at a leaf of a subtree S with no flag of a level inside or at the root of S set, reaches
every leaf of S exactly once, by edges inside S. By induction over S:
- S is a leaf: it is there, and no edge inside S exists.
- S has root level n and subtrees A, B; say it arrives at leaf a of A. Only levels inside S matter. Levels in A
  are below n, so by induction the record reaches every leaf of A once through A's edges; the flags that it
  collects there are all below n. It arrived at `a` with no bit at or below n set (levels that are above n do not
  meet the mask of n), so the distributor (a, n) copies it once to a leaf of B, with bit n set and none below:
  by induction it reaches every leaf of B once. Every other leaf of A got the record with a bit of a level
  inside A set, which is below n and so meets the mask of n: its distributor of level n skips. In B every copy
  has bit n set, so B's distributors of level n skip: nothing returns to A.
A fresh record has no flags, so the claim holds for the whole tree. `coverage` checks the outcome for a given
tree all the same, by following the rule, before the tree is accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backend.domain.records import copy_flags
from backend.domain.tree.tree_shape import Node, leaves, siblings

Targets = Mapping[tuple[str, int], str]


class Edge(NamedTuple):
    """A distributor as part of one origin's route: its source, its target, and the flags on the copy."""

    source: str
    level: int
    target: str
    flags: int


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Outcome of following every origin's records; `pairs` counts the (origin, cluster) that are reached once."""

    proven: bool
    pairs: int
    missing: tuple[tuple[str, str], ...]
    doubled: tuple[tuple[str, str], ...]


def routes(root: Node, targets: Targets) -> dict[str, tuple[Edge, ...]]:
    """Return the edges that each origin's records take, in the order in which they are reached."""
    ahead: dict[str, list[Edge]] = {cluster: [] for cluster in leaves(root)}
    for cluster, level, _ in siblings(root):
        ahead[cluster].append(Edge(cluster, level, targets[cluster, level], copy_flags.flag(level)))
    return {origin: _route(origin, ahead) for origin in ahead}


def _route(origin: str, ahead: Mapping[str, Sequence[Edge]]) -> tuple[Edge, ...]:
    """Follow one origin; `ahead` has each cluster's edges for a record without flags, lowest level first."""
    edges = list(ahead[origin])
    # Each edge adds a bit below or beside those there, so a record can travel no further than there are
    # levels; the bound keeps a wrong target map from looping for ever.
    bound = len(ahead) * (copy_flags.HIGHEST_LEVEL + 1)
    followed = 0
    while followed < len(edges) <= bound:
        _, _, cluster, flags = edges[followed]
        followed += 1
        for edge in ahead[cluster]:
            # Masks are nested: a record that is skipped at one level is skipped at all levels above.
            if copy_flags.skips(flags, edge.level):
                break
            edges.append(Edge(cluster, edge.level, edge.target, flags | edge.flags))
    return tuple(edges)


def way(route: Iterable[Edge], origin: str, to: str) -> tuple[Edge, ...]:
    """Return the edges of a route by which the origin's records reach a cluster, in order; empty if none do."""
    into = {edge.target: edge for edge in route}
    found: list[Edge] = []
    while to != origin:
        if to not in into or into[to] in found:
            return ()
        found.append(into[to])
        to = into[to].source
    return tuple(reversed(found))


def coverage(root: Node, targets: Targets) -> Coverage:
    """Check that every cluster gets every other cluster's records exactly once, and never its own back."""
    missing: list[tuple[str, str]] = []
    doubled: list[tuple[str, str]] = []
    pairs = 0
    names = leaves(root)
    for origin, edges in routes(root, targets).items():
        arrivals = Counter(edge.target for edge in edges)
        for cluster in names:
            count = arrivals[cluster] + (cluster == origin)
            if count == 0:
                missing.append((origin, cluster))
            elif count > 1:
                doubled.append((origin, cluster))
            elif cluster != origin:
                pairs += 1
    return Coverage(
        proven=not missing and not doubled, pairs=pairs, missing=tuple(missing), doubled=tuple(doubled)
    )


def arrival_flags(root: Node, targets: Targets, origin: str) -> dict[str, int]:
    """Return the flags that a record produced on `origin` carries on each cluster."""
    found = {origin: 0}
    found.update((edge.target, edge.flags) for edge in routes(root, targets)[origin])
    return found
