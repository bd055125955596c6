"""The desired state for workers: the plan of every task, at one position of the event log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.distribution import edges
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import DistributedStream, EdgePlan, Endpoint, HeaderNames, TopicLife
from backend.domain.switch.cluster_switch import MOVES_CLIENTS, PHASE_EVENTS
from backend.queries.base.events import newest_position
from backend.queries.base.observed import internal_topics
from backend.queries.clusters.clusters import list_clusters
from backend.queries.distribution.edge_losses import holes
from backend.queries.distribution.leaf_routes import known_origins, list_inbound, roots_of
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.tenants.streams import StreamRow, list_streams
from backend.queries.tree.trees import get_tree
from backend.settings import Settings


@dataclass(frozen=True)
class Desired:
    """Plans of all tasks, and the position of the log that they are derived from."""

    position: int
    plans: Mapping[Task, EdgePlan]
    primary: Endpoint | None = None
    """The cluster that writes schemas; None while there is no tree."""


def position(connection: Connection) -> tuple[int, int]:
    """Return what plans depend on, cheaply: the newest relevant event, and the count of internal topics seen."""
    head = newest_position(connection, but=PHASE_EVENTS | MOVES_CLIENTS)
    seen = connection.execute(sa.select(sa.func.coalesce(sa.func.sum(internal_topics.c.incarnation), 0)))
    return head, seen.scalar_one()


def read(connection: Connection, settings: Settings) -> Desired:
    """Return the current plans; empty while there is no tree."""
    head, _ = position(connection)
    tree = get_tree(connection)
    if tree is None:
        return Desired(head, {})
    root = tree.shape
    endpoints = {row.name: row.endpoint for row in list_clusters(connection)}
    streams = [_distributed(row) for row in list_streams(connection) if row.distributed]
    streams = _with_records(connection, streams + _internal(connection))
    headers = HeaderNames(
        flags=settings.copy_flags_header,
        origin=settings.copy_origin_header,
        write_origin=settings.origin_header,
    )
    wanted = edges.Desired(
        root=root,
        targets=tree.targets,
        endpoints=endpoints,
        leaves=list_inbound(connection),
        known_origins=known_origins(connection),
        streams=streams,
        buckets=partition_buckets(connection, settings),
        headers=headers,
        settings=tree.settings,
    )
    return Desired(head, edges.plans(wanted), endpoints[tree.primary_cluster])


def _with_records(connection: Connection, streams: list[DistributedStream]) -> list[DistributedStream]:
    """Add the log's facts on single records: roots of lost origins, and dead-lettered records."""
    roots, aside = roots_of(connection), holes(connection)
    if not roots and not aside:
        return streams
    return [
        replace(
            row,
            roots={p: roots[row.stream, p] for p in range(row.partitions) if (row.stream, p) in roots},
            holes={p: aside[row.stream, p] for p in range(row.partitions) if (row.stream, p) in aside},
        )
        for row in streams
    ]


def _distributed(row: StreamRow) -> DistributedStream:
    ready = {
        c: TopicLife(incarnation=row.incarnations[c], topic_id=row.topic_ids[c], tails=row.tails[c])
        for c in row.incarnations
        if row.applied[c] == "applied"
    }
    return DistributedStream(
        stream=row.stream,
        partitions=row.partitions,
        technical_names=row.technical_names,
        topics=ready,
    )


def _internal(connection: Connection) -> list[DistributedStream]:
    """Return the internal streams: their technical name is the same everywhere, and equals their full name."""
    by_topic: dict[str, dict[str, sa.Row[tuple[object, ...]]]] = {}
    for row in connection.execute(sa.select(internal_topics)):
        by_topic.setdefault(row.topic, {})[row.cluster] = row
    return [
        DistributedStream(
            stream=topic,
            partitions=min(row.partitions for row in rows.values()),
            technical_names=dict.fromkeys(rows, topic),
            topics={
                cluster: TopicLife(incarnation=row.incarnation, topic_id=str(row.topic_id))
                for cluster, row in rows.items()
            },
        )
        for topic, rows in by_topic.items()
    ]
