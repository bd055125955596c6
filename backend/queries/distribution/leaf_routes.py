"""Queries of the routes into leaves, the distributors that may copy there, and the roots of lost origins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import Task
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
    """Routes into one leaf of the tree; versions are positions of events."""

    wanted: int
    entered: int
    inbound: frozenset[tuple[str, int]]
    """Every (cluster, level) that was ever allowed to copy to the leaf."""
    buckets: int
    """Number of tasks of a distributor when it was entered; 0 before the first time."""
    buckets_ever: frozenset[int]

    def tasks_ever(self, buckets: int) -> tuple[Task, ...]:
        """Return every task that may ever have copied to the leaf, if distributors have `buckets` tasks now."""
        return assignment.tasks(sorted(self.inbound), max(buckets, *self.buckets_ever, 1))

    def entered_as(self, buckets: int) -> bool:
        """Return whether the required version is entered, with this number of tasks of a distributor."""
        return self.entered == self.wanted and self.buckets == buckets


def list_leaves(connection: Connection) -> dict[str, LeafRow]:
    """Return the tree's leaves by name."""
    return {row.cluster: _leaf(row) for row in connection.execute(_LEAVES)}


def list_inbound(connection: Connection) -> dict[str, LeafInbound]:
    """Return what may copy to each leaf of the tree."""
    return {
        name: LeafInbound(version=row.wanted, ever=row.inbound, buckets_ever=row.buckets_ever)
        for name, row in list_leaves(connection).items()
    }


def get_leaf(connection: Connection, cluster: str) -> LeafRow | None:
    """Return one leaf; None if the cluster is not a leaf."""
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
    """Return the required version of the routes into a leaf; 0 if it is not a leaf."""
    row = get_leaf(connection, cluster)
    return row.wanted if row else 0


def why_not_entered(connection: Connection, cluster: str, version: int, buckets: int) -> str | None:
    """Return why a leaf has not entered exactly this version and number of buckets, or needs a later one.

    None if its barrier is passed.
    """
    row = get_leaf(connection, cluster)
    if row is None or not row.wanted == row.entered == version:
        return f"{cluster} has not entered its new routes yet"
    if row.buckets != buckets:
        return f"{cluster} has entered its routes with {row.buckets} tasks of a distributor, not with {buckets}"
    return None


def known_origins(connection: Connection) -> frozenset[int]:
    """Return the numbers of all clusters that are, or ever were, leaves of the tree."""
    then = sa.and_(
        clusters.c.name == tree_leaves.c.cluster,
        clusters.c.valid_from <= tree_leaves.c.valid_from,
        sa.or_(clusters.c.valid_to.is_(None), clusters.c.valid_to > tree_leaves.c.valid_from),
    )
    query = sa.select(clusters.c.number).distinct().select_from(tree_leaves.join(clusters, then))
    return frozenset(connection.execute(query.where(tree_leaves.c.tree == MAIN)).scalars())


def roots_of(connection: Connection) -> dict[tuple[str, int], dict[int, str]]:
    """Return (stream, partition) -> number of an origin that left the tree -> root leaf of its records."""
    found: dict[tuple[str, int], dict[int, str]] = {}
    for row in connection.execute(sa.select(origin_roots).where(as_of(origin_roots, None))):
        found.setdefault((row.stream, row.partition), {})[row.number] = row.leaf
    return found
