"""Short rows of an environment's streams: enough to sort and search thousands of them before a page is read."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from backend.projections.streams import stream_topics, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.projections.trees import tree_leaves

FAILED, DRIFTED, PENDING, APPLIED = WORST_FIRST = ("failed", "drifted", "pending", "applied")
"""States of a topic on a cluster."""
Environment = tuple[str, str, str]


@dataclass(frozen=True)
class StreamLine:
    """A stream's name and its declared settings of one value."""

    name: str
    partitions: int
    retention_ms: int
    cleanup_policy: str
    distributed: bool


def stream_lines(connection: Connection, place: Environment, at: int | None = None) -> list[StreamLine]:
    """Return the streams of an environment, by name."""
    t = streams.c
    query = sa.select(t.stream, t.partitions, t.retention_ms, t.cleanup_policy, t.distributed)
    query = query.where(as_of(streams, at), *_of(streams, place)).order_by(t.stream)
    return [StreamLine(*row) for row in connection.execute(query)]


def stream_states(connection: Connection, place: Environment, at: int | None = None) -> dict[str, str]:
    """Return the worst state of each stream's topics on the tree's clusters.

    Streams of which no topic is recorded yet are left out: they are pending.
    """
    t = stream_topics.c
    tree = sa.select(instances.c.tree).where(
        instances.c.tenant == place[0], instances.c.name == place[1], as_of(instances, at)
    )
    leaves = sa.select(tree_leaves.c.cluster).where(
        tree_leaves.c.tree == tree.scalar_subquery(), as_of(tree_leaves, at)
    )
    clusters = sa.select(sa.func.count()).select_from(leaves.subquery()).scalar_subquery()
    is_applied = t.state == APPLIED
    worst = sa.case(
        (sa.func.bool_or(t.state == FAILED), FAILED),
        (sa.func.bool_or(sa.and_(is_applied, t.failure.is_not(None))), DRIFTED),
        (sa.func.count().filter(is_applied) < clusters, PENDING),
        else_=APPLIED,
    )
    query = sa.select(t.stream, worst).where(
        as_of(stream_topics, at), *_of(stream_topics, place), ~t.removing, t.cluster.in_(leaves)
    )
    return {row[0]: row[1] for row in connection.execute(query.group_by(t.stream))}


def _of(table: Table, place: Environment) -> list[ColumnElement[bool]]:
    return [
        table.c[part] == value for part, value in zip(("tenant", "instance", "environment"), place, strict=True)
    ]
