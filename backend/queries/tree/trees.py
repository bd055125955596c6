"""Queries of trees, now or as of a position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import DistributorSettings
from backend.domain.tree.primary_move import Move
from backend.domain.tree.tree import clusters_of
from backend.domain.tree.tree_shape import Node
from backend.projections.temporal import as_of
from backend.projections.trees import distributor_settings, settings_of, tree_leaves, tree_targets, trees

MAIN = "main"


@dataclass(frozen=True)
class TreeRow:
    """A tree. `root` is its document, `targets` (cluster, level) -> leaf; `position` is that of its last event.

    `settings` has only the distributors whose settings were ever changed; `move` is that of the primary, if any.
    """

    name: str
    root: dict[str, Any]
    primary_cluster: str
    targets: dict[tuple[str, int], str]
    settings: dict[tuple[str, int], DistributorSettings]
    move: Move | None
    version: int
    position: int

    @cached_property
    def shape(self) -> Node:
        """Return the tree's nodes."""
        return tree_shape.parse(self.root, clusters_of(self.root))


def get_tree(connection: Connection, at: int | None = None, name: str = MAIN) -> TreeRow | None:
    """Return a tree; None if it is not set (yet)."""
    query = sa.select(trees).where(trees.c.name == name, as_of(trees, at))
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    targets = sa.select(tree_targets).where(tree_targets.c.tree == name, as_of(tree_targets, at))
    of_tree = sa.select(distributor_settings).where(
        distributor_settings.c.tree == name, as_of(distributor_settings, at)
    )
    return TreeRow(
        name=row.name,
        root=row.root,
        primary_cluster=row.primary_cluster,
        targets={(each.cluster, each.level): each.target for each in connection.execute(targets)},
        settings={
            (each["cluster"], each["level"]): settings_of(dict(each))
            for each in connection.execute(of_tree).mappings()
        },
        move=None if row.moving_to is None else Move(cluster=row.moving_to, take_over=row.take_over),
        version=row.version,
        position=row.valid_from,
    )


def tree_position(connection: Connection, name: str = MAIN) -> int | None:
    """Return the position of a tree's last event, which tells whether a tree that was read is still current."""
    query = sa.select(trees.c.valid_from).where(trees.c.name == name, as_of(trees, None))
    return connection.execute(query).scalar_one_or_none()


def primary_for(connection: Connection, cluster: str) -> str:
    """Return the cluster that writes a cluster's schemas: its tree's primary, or itself outside of all trees."""
    query = (
        sa.select(trees.c.primary_cluster)
        .join(tree_leaves, tree_leaves.c.tree == trees.c.name)
        .where(tree_leaves.c.cluster == cluster, as_of(tree_leaves, None), as_of(trees, None))
        .order_by(trees.c.name)
    )
    return connection.execute(query).scalars().first() or cluster


def tree_names(connection: Connection, at: int | None = None) -> frozenset[str]:
    """Return the names of the trees that are set."""
    return frozenset(connection.execute(sa.select(trees.c.name).where(as_of(trees, at))).scalars())
