"""Projection of the routes into each leaf: wanted version, entered version, and distributors ever allowed.

The routes follow from the tree and its targets, of which this projection keeps a copy, since it reads its own
tables only.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.distribution import leaf_routes as rule
from backend.domain.distribution.leaf import LeafEnteredRoutes
from backend.domain.distribution.lost_origin import OriginRerooted
from backend.domain.tree import tree_shape
from backend.domain.tree.tree import DistributorTargetSwitched, TreeReplaced, clusters_of
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, open_rows, replace, temporal_table

MAIN = "main"
GONE = "gone"
"""Digest for a cluster that is currently no leaf."""

routes_basis = temporal_table(
    "routes_basis",
    METADATA,
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("root", JSONB, nullable=False),
    # [[cluster, level, target], ...]
    sa.Column("targets", JSONB, nullable=False),
    # Position of the last re-rooting, 0 before the first.
    sa.Column("rerooted", sa.BigInteger, nullable=False),
)
leaf_routes = temporal_table(
    "leaf_routes",
    METADATA,
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    # Positions of events: of the version wanted, and of the one entered (0: none).
    sa.Column("wanted", sa.BigInteger, nullable=False),
    sa.Column("entered", sa.BigInteger, nullable=False),
    # [[cluster, level], ...]: every distributor that was ever allowed to copy to the leaf.
    sa.Column("inbound", JSONB, nullable=False),
    # Task counts of a distributor: the one at its entry (0: not entered), and all that it ever had.
    sa.Column("buckets", sa.Integer, nullable=False),
    sa.Column("buckets_ever", JSONB, nullable=False),
)
origin_roots = temporal_table(
    "origin_roots",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("leaf", sa.Text, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    position = recorded.position
    match recorded.event:
        case TreeReplaced() as event:
            basis = current(rows, routes_basis, {"tree": MAIN})
            targets = [list(row) for row in event.targets]
            _set(rows, event.root, targets, basis["rerooted"] if basis else 0, position)
        case DistributorTargetSwitched() as event:
            basis = current(rows, routes_basis, {"tree": MAIN})
            assert basis is not None  # only a tree that is set has targets
            rest = [row for row in basis["targets"] if (row[0], row[1]) != (event.cluster, event.level)]
            targets = sorted([*rest, [event.cluster, event.level, event.target]])
            _set(rows, basis["root"], targets, basis["rerooted"], position)
        case OriginRerooted() as event:
            for stream, partition, leaf in event.partitions:
                key = {"number": event.number, "stream": stream, "partition": partition}
                replace(rows, origin_roots, key, {"leaf": leaf}, position)
            basis = current(rows, routes_basis, {"tree": MAIN})
            if basis is not None:
                _set(rows, basis["root"], basis["targets"], position, position)
        case LeafEnteredRoutes() as event:
            key = {"tree": MAIN, "cluster": event.cluster}
            _enter(rows, key, event, position)


def _enter(rows: Rows, key: dict[str, Any], event: LeafEnteredRoutes, position: int) -> None:
    before = current(rows, leaf_routes, key)
    if before is not None:
        ever = sorted({*before["buckets_ever"], event.buckets} - {0})
        values = {"entered": event.routes, "buckets": event.buckets, "buckets_ever": ever}
        change(rows, leaf_routes, key, values, position)


def _set(rows: Rows, document: Any, targets: list[list[Any]], rerooted: int, position: int) -> None:
    values = {"root": document, "targets": targets, "rerooted": rerooted}
    replace(rows, routes_basis, {"tree": MAIN}, values, position)
    root = tree_shape.parse(document, clusters_of(document))
    entering = rule.inbound(root, {(cluster, level): target for cluster, level, target in targets})
    standing = {row["cluster"]: row for row in open_rows(rows, leaf_routes, {"tree": MAIN})}
    for cluster in sorted(standing.keys() | entering.keys()):
        before = standing.get(cluster)
        edges = entering.get(cluster)
        digest = GONE if edges is None else rule.digest(edges, rerooted)
        if before is not None and before["digest"] == digest:
            continue
        ever = {tuple(row) for row in before["inbound"]} if before else set()
        row = {
            "digest": digest,
            "wanted": position,
            "entered": before["entered"] if before else 0,
            "buckets": before["buckets"] if before else 0,
            "buckets_ever": before["buckets_ever"] if before else [],
            "inbound": sorted([cluster, level] for cluster, level in ever | set(edges or ())),
        }
        replace(rows, leaf_routes, {"tree": MAIN, "cluster": cluster}, row, position)


PROJECTION = Projection(
    name="leaf_routes",
    events=frozenset({TreeReplaced, DistributorTargetSwitched, OriginRerooted, LeafEnteredRoutes}),
    tables=(routes_basis, leaf_routes, origin_roots),
    apply=_apply,
)
