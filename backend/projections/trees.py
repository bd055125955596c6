"""Read model of the trees: their shape, their leaves, and each distributor's target."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.tree import DistributorTargetSwitched, TreeReplaced, clusters_of
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, open_rows, replace, temporal_table

trees = temporal_table(
    "trees",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("root", JSONB, nullable=False),
    sa.Column("primary_cluster", sa.Text, nullable=False),
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


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    tree = recorded.stream.removeprefix("tree-")
    match recorded.event:
        case TreeReplaced() as event:
            values = {"root": event.root, "primary_cluster": event.primary_cluster, "version": recorded.version}
            replace(rows, trees, {"name": tree}, values, recorded.position)
            _set_leaves(rows, tree, clusters_of(event.root), recorded.position)
            wanted = {(cluster, level): target for cluster, level, target in event.targets}
            _set_targets(rows, tree, wanted, recorded.position)
        case DistributorTargetSwitched() as event:
            key = {"tree": tree, "cluster": event.cluster, "level": event.level}
            replace(rows, tree_targets, key, {"target": event.target}, recorded.position)
            change(rows, trees, {"name": tree}, {"version": recorded.version}, recorded.position)


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


PROJECTION = Projection(
    name="trees",
    events=frozenset({TreeReplaced, DistributorTargetSwitched}),
    tables=(trees, tree_leaves, tree_targets),
    apply=_apply,
)
