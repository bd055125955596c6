"""Projection of the trees: their shape, their leaves, and each distributor's target and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.tree.distributor_settings import (
    DEFAULTS,
    SETTINGS_EVENTS,
    DistributorSettings,
    SettingsEvent,
    evolve,
)
from backend.domain.tree.primary_move import PRIMARY_EVENTS, PrimaryMoveBegun, PrimaryMoveCancelled, PrimaryMoved
from backend.domain.tree.tree import DistributorTargetSwitched, TreeReplaced, clusters_of
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, open_rows, replace, temporal_table

trees = temporal_table(
    "trees",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("root", JSONB, nullable=False),
    sa.Column("primary_cluster", sa.Text, nullable=False),
    # The cluster that the primary moves to, and whether it takes over without waiting for the current one.
    sa.Column("moving_to", sa.Text),
    sa.Column("take_over", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("version", sa.BigInteger, nullable=False),
)
tree_leaves = temporal_table(
    "tree_leaves",
    METADATA,
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
)
tree_targets = temporal_table(
    "tree_targets",
    METADATA,
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("target", sa.Text, nullable=False),
)
# Distributors without a row have the defaults.
distributor_settings = temporal_table(
    "distributor_settings",
    METADATA,
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("bytes_per_second", sa.BigInteger),
    sa.Column("compression", sa.Text, nullable=False),
)

_NO_MOVE: Mapping[str, Any] = {"moving_to": None, "take_over": False}


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    tree = recorded.stream.removeprefix("tree-")
    match recorded.event:
        case TreeReplaced() as event:
            _set_tree(rows, tree, event, recorded)
            _set_leaves(rows, tree, clusters_of(event.root), recorded.position)
            wanted = {(cluster, level): target for cluster, level, target in event.targets}
            _set_targets(rows, tree, wanted, recorded.position)
            _keep_settings(rows, tree, frozenset(wanted), recorded.position)
        case DistributorTargetSwitched() as event:
            key = {"tree": tree, "cluster": event.cluster, "level": event.level}
            replace(rows, tree_targets, key, {"target": event.target}, recorded.position)
            change(rows, trees, {"name": tree}, {"version": recorded.version}, recorded.position)
        case event if isinstance(event, SettingsEvent):
            key = {"tree": tree, "cluster": event.cluster, "level": event.level}
            _change_settings(rows, key, event, recorded.position)
            change(rows, trees, {"name": tree}, {"version": recorded.version}, recorded.position)
        case PrimaryMoveBegun() as event:
            move = {"moving_to": event.cluster, "take_over": event.take_over, "version": recorded.version}
            change(rows, trees, {"name": tree}, move, recorded.position)
        case PrimaryMoveCancelled() | PrimaryMoved() as event:
            settled = {"primary_cluster": event.cluster, **_NO_MOVE, "version": recorded.version}
            change(rows, trees, {"name": tree}, settled, recorded.position)


def _set_tree(rows: Rows, tree: str, event: TreeReplaced, recorded: RecordedEvent) -> None:
    before = current(rows, trees, {"name": tree})
    kept = before is not None and before["moving_to"] in clusters_of(event.root)
    move = {name: before[name] for name in _NO_MOVE} if before is not None and kept else _NO_MOVE
    values = {"root": event.root, "primary_cluster": event.primary_cluster, **move, "version": recorded.version}
    replace(rows, trees, {"name": tree}, values, recorded.position)


def _set_leaves(rows: Rows, tree: str, wanted: frozenset[str], position: int) -> None:
    present = {row["cluster"] for row in open_rows(rows, tree_leaves, {"tree": tree})}
    for cluster in sorted(present ^ wanted):
        values: dict[str, object] | None = {} if cluster in wanted else None
        replace(rows, tree_leaves, {"tree": tree, "cluster": cluster}, values, position)


def _set_targets(rows: Rows, tree: str, wanted: dict[tuple[str, int], str], position: int) -> None:
    standing = open_rows(rows, tree_targets, {"tree": tree})
    present = {(row["cluster"], row["level"]): row["target"] for row in standing}
    for cluster, level in sorted(present.keys() | wanted.keys()):
        target = wanted.get((cluster, level))
        if target != present.get((cluster, level)):
            key = {"tree": tree, "cluster": cluster, "level": level}
            replace(rows, tree_targets, key, {"target": target} if target else None, position)


def _change_settings(rows: Rows, key: dict[str, object], event: SettingsEvent, position: int) -> None:
    row = current(rows, distributor_settings, key)
    present = settings_of(row) if row else DEFAULTS
    values = asdict(evolve(present, event))
    replace(rows, distributor_settings, key, values, position)


def _keep_settings(rows: Rows, tree: str, distributors: frozenset[tuple[str, int]], position: int) -> None:
    for row in open_rows(rows, distributor_settings, {"tree": tree}):
        if (row["cluster"], row["level"]) not in distributors:
            key = {name: row[name] for name in ("tree", "cluster", "level")}
            replace(rows, distributor_settings, key, None, position)


def settings_of(row: Mapping[str, Any]) -> DistributorSettings:
    """Return the settings in a row."""
    return DistributorSettings(
        paused=row["paused"], bytes_per_second=row["bytes_per_second"], compression=row["compression"]
    )


PROJECTION = Projection(
    name="trees",
    events=frozenset({TreeReplaced, DistributorTargetSwitched, *SETTINGS_EVENTS, *PRIMARY_EVENTS}),
    tables=(trees, tree_leaves, tree_targets, distributor_settings),
    apply=_apply,
)
