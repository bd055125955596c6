"""Changes of the distribution tree, of its distributors and of its primary cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.deciders import TREE
from backend.domain.base.errors import NotFound, StateConflict
from backend.domain.names import formats
from backend.domain.names.formats import ClusterFormats
from backend.domain.offsets.application_groups import ClusterGroups, check_joining
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import ChangeDistributor
from backend.domain.tree.primary_move import MovePrimary
from backend.domain.tree.tree import ReplaceTree, SwitchTarget, Tree, TreeCommand, clusters_of
from backend.queries.base.names_of_events import name_switches
from backend.queries.base.naming import declared_streams
from backend.queries.clusters import clusters
from backend.queries.switch.switches import moving_switches
from backend.queries.tenants.application_groups import declared_groups
from backend.queries.tree.trees import MAIN, TreeRow, get_tree

TreeChange = Change[Tree, TreeCommand]
TreeMatch = Callable[[int | None], None]
"""Raises StaleVersion unless a tree at this version (None: there is no tree) may be changed."""
STREAM = f"tree-{MAIN}"


def replace_tree(root: object, primary: str | None, match: TreeMatch) -> TreeChange:
    """Replace the tree. `root` is its document; `primary` None keeps the primary, or takes the first leaf."""

    def build(connection: Connection) -> ReplaceTree:
        row = get_tree(connection)
        match(row.version if row else None)
        known = frozenset(cluster.name for cluster in clusters.list_clusters(connection))
        _check_names_on_joining(connection, row, root, known)
        _check_switches_on_leaving(connection, root, known)
        return ReplaceTree(root=root, known_clusters=known, primary_cluster=primary)

    return Change(TREE, STREAM, build)


def switch_target(cluster: str, level: int, target: str, match: TreeMatch) -> TreeChange:
    """Change a distributor's target to another leaf of its sibling subtree."""

    def build(connection: Connection) -> SwitchTarget:
        match(existing_tree(connection).version)
        return SwitchTarget(cluster=cluster, level=level, target=target)

    return Change(TREE, STREAM, build)


def change_distributor(cluster: str, level: int, given: dict[str, Any], match: TreeMatch) -> TreeChange:
    """Change the given settings of a distributor; `bytes_per_second` None removes the limit."""

    def build(connection: Connection) -> ChangeDistributor:
        match(existing_tree(connection).version)
        clear_limit = given.get("bytes_per_second", 0) is None
        return ChangeDistributor(cluster=cluster, level=level, clear_limit=clear_limit, **given)

    return Change(TREE, STREAM, build)


def move_primary(cluster: str, take_over: bool, match: TreeMatch) -> TreeChange:
    """Move the primary to another cluster; the current one first completes a move that is in progress."""

    def build(connection: Connection) -> MovePrimary:
        match(existing_tree(connection).version)
        return MovePrimary(cluster=cluster, take_over=take_over)

    return Change(TREE, STREAM, build)


def existing_tree(connection: Connection, at: int | None = None) -> TreeRow:
    """Return the tree. Raises NotFound."""
    row = get_tree(connection, at)
    if row is None:
        raise NotFound("there is no tree main yet; PUT /trees/main creates it")
    return row


def _check_names_on_joining(
    connection: Connection, row: TreeRow | None, root: object, known: frozenset[str]
) -> None:
    """Refuse a joining cluster on which the names of the tree's streams or groups would collide."""
    # Parse before walking: only a valid tree is known not to be endlessly deep.
    names = tree_shape.leaves(tree_shape.parse(root, known))
    joining = set(names) - (clusters_of(row.root) if row else frozenset())
    if not joining:
        return
    streams, groups = declared_streams(connection, MAIN), declared_groups(connection, MAIN)
    for cluster in clusters.list_clusters(connection):
        if cluster.name in joining:
            of = ClusterFormats(cluster.name, cluster.topic_format, cluster.subject_format)
            pointer = _pointer(root, cluster.name) or ""
            formats.check_deployment(streams, of, pointer)
            check_joining(groups, ClusterGroups(cluster.name, cluster.group_format), pointer)


def _check_switches_on_leaving(connection: Connection, root: object, known: frozenset[str]) -> None:
    """Refuse a tree that lacks a leaf from or to which a switch is moving clients."""
    names = tree_shape.leaves(tree_shape.parse(root, known))
    moving = moving_switches(connection)
    named = name_switches(connection, [switch.id for switch in moving])
    for switch in moving:
        for cluster in (switch.source, switch.target):
            if cluster not in names:
                raise StateConflict(
                    f"switch {named[switch.id].number} moves clients from {switch.source} to {switch.target}; "
                    f"wait for it, or abort it, before {cluster} leaves the tree"
                )


def _pointer(node: Any, cluster: str, at: str = "") -> str | None:
    """Return the JSON pointer of a cluster's leaf."""
    if "cluster" in node:
        return f"{at}/cluster" if node["cluster"] == cluster else None
    found = (_pointer(child, cluster, f"{at}/children/{n}") for n, child in enumerate(node["children"]))
    return next((place for place in found if place), None)
