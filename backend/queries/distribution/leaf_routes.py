"""Reading the routes into leaves, who may copy there, and where records of lost origins go on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import Unit
from backend.domain.distribution.edges import LeafInbound
from backend.projections.clusters import clusters
from backend.projections.leaf_routes import GONE, MAIN, leaf_routes, origin_roots
from backend.projections.temporal import as_of
from backend.projections.trees import tree_leaves

_LEAVES = sa.select(leaf_routes).where(
    leaf_routes.c.tree == MAIN, leaf_routes.c.digest != GONE, as_of(leaf_routes, None)
)


@dataclass(frozen=True)
class LeafRow:
    """The routes into one leaf of the tree; versions are positions of events."""

    wanted: int
    entered: int
    inbound: frozenset[tuple[str, int]]
    """Every (cluster, level) that was ever allowed to copy there."""
    buckets: int
    """Units of a distributor that it was entered with; 0 before the first time."""
    buckets_ever: frozenset[int]

    def units_ever(self, buckets: int) -> tuple[Unit, ...]:
        """Every unit that may ever have copied to the leaf, if distributors are cut into `buckets` now."""
        return assignment.units(sorted(self.inbound), max(buckets, *self.buckets_ever, 1))

    def entered_as(self, buckets: int) -> bool:
        """Whether the routes that the tree asks for are entered, with so many units of a distributor."""
        return self.entered == self.wanted and self.buckets == buckets


def list_leaves(connection: Connection) -> dict[str, LeafRow]:
    """The tree's leaves by name."""
    return {row.cluster: _leaf(row) for row in connection.execute(_LEAVES)}


def list_inbound(connection: Connection) -> dict[str, LeafInbound]:
    """What may copy to each leaf of the tree."""
    return {
        name: LeafInbound(version=row.wanted, ever=row.inbound, buckets_ever=row.buckets_ever)
        for name, row in list_leaves(connection).items()
    }


def get_leaf(connection: Connection, cluster: str) -> LeafRow | None:
    """One leaf; None if the cluster is none."""
    row = connection.execute(_LEAVES.where(leaf_routes.c.cluster == cluster)).one_or_none()
    return None if row is None else _leaf(row)


def _leaf(row: Row[Any]) -> LeafRow:
    return LeafRow(
        wanted=row.wanted,
        entered=row.entered,
        inbound=frozenset((name, level) for name, level in row.inbound),
        buckets=row.buckets,
        buckets_ever=frozenset(row.buckets_ever),
    )


def wanted_version(connection: Connection, cluster: str) -> int:
    """The version of the routes into a leaf that the tree asks for; 0 if it is no leaf."""
    row = get_leaf(connection, cluster)
    return row.wanted if row else 0


def why_not_entered(connection: Connection, cluster: str, version: int, buckets: int) -> str | None:
    """None if a leaf's barrier for exactly this version and number of buckets is passed, and no later one is asked
    for; otherwise what is missing."""
    row = get_leaf(connection, cluster)
    if row is None or not row.wanted == row.entered == version:
        return f"{cluster} has not entered its new routes yet"
    if row.buckets != buckets:
        return f"{cluster} is entered with {row.buckets} units of a distributor, not with {buckets}"
    return None


def known_origins(connection: Connection) -> frozenset[int]:
    """Numbers of all clusters that are, or ever were, leaves of the tree."""
    then = sa.and_(
        clusters.c.name == tree_leaves.c.cluster,
        clusters.c.valid_from <= tree_leaves.c.valid_from,
        sa.or_(clusters.c.valid_to.is_(None), clusters.c.valid_to > tree_leaves.c.valid_from),
    )
    query = sa.select(clusters.c.number).distinct().select_from(tree_leaves.join(clusters, then))
    return frozenset(connection.execute(query.where(tree_leaves.c.tree == MAIN)).scalars())


def roots_of(connection: Connection) -> dict[tuple[str, int], dict[int, str]]:
    """(stream, partition) -> number of an origin that left the tree -> the leaf that its records go on from."""
    found: dict[tuple[str, int], dict[int, str]] = {}
    for row in connection.execute(sa.select(origin_roots).where(as_of(origin_roots, None))):
        found.setdefault((row.stream, row.partition), {})[row.number] = row.leaf
    return found
