"""State of the whole estate for its overview: the rows that the page draws, and the facts for the verdict.

Each part is one statement or two, whatever the number of clusters, streams and groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.overview.estate_facts import (
    ApplyFact,
    ClusterFact,
    DistributorFact,
    EstateFacts,
    NodeFact,
    OpenFact,
    ReplicationFact,
)
from backend.eventlog.tables import events
from backend.projections import runner
from backend.projections.catalogue import PROJECTIONS
from backend.projections.streams import STREAM, stream_topics
from backend.projections.temporal import as_of
from backend.queries.base.events import head, times_of
from backend.queries.base.observed import STALE, cluster_replication
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.distribution.distributors import DistributorRow, distributors_of
from backend.queries.distribution.edge_losses import OpenCounts, count_open
from backend.queries.overview.group_facts import groups_with_problems
from backend.queries.overview.switch_facts import switches_of_note
from backend.queries.overview.webhook_facts import failing_webhooks
from backend.queries.overview.worker_facts import read_workers, waiting_since
from backend.queries.switch.active_clusters import list_active
from backend.queries.tree.trees import TreeRow, get_tree
from backend.queries.zones.zone_router import list_nodes

_NOW = sa.func.clock_timestamp()


@dataclass(frozen=True, kw_only=True)
class EstateState:
    """The estate at one moment."""

    facts: EstateFacts
    clusters: Sequence[ClusterRow]
    tree: TreeRow | None
    distributors: Sequence[DistributorRow]
    active_tenants: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> number of tenants whose clients are routed there."""
    under_replicated: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> number of under-replicated partitions, where that was observed lately."""


def read_estate(connection: Connection) -> EstateState:
    """Read the state of the estate now."""
    clusters, tree = list_clusters(connection), get_tree(connection)
    counts = count_open(connection)
    distributors = [] if tree is None else distributors_of(connection, tree, clusters, counts=counts)
    now, workers = read_workers(connection)
    lost, possibly_lost, dead_letters = _open(connection, counts)
    not_applied, drifted = _not_as_declared(connection)
    alerts, under_replicated = _replication(connection, clusters)
    facts = EstateFacts(
        now=now,
        clusters=_cluster_facts(connection, clusters),
        has_tree=tree is not None,
        distributors=_distributor_facts(
            distributors,
            lost + possibly_lost + dead_letters,
            not_applied + drifted,
            waiting_since(connection, distributors),
        ),
        workers=workers,
        lost=lost,
        possibly_lost=possibly_lost,
        dead_letters=dead_letters,
        not_applied=not_applied,
        drifted=drifted,
        replication=alerts,
        groups=groups_with_problems(connection, now),
        switches=switches_of_note(connection, now),
        nodes=_nodes(connection, now),
        webhooks=failing_webhooks(connection),
        projections=_behind(connection),
    )
    return EstateState(
        facts=facts,
        clusters=clusters,
        tree=tree,
        distributors=distributors,
        active_tenants=_active_tenants(connection),
        under_replicated=under_replicated,
    )


def _cluster_facts(connection: Connection, clusters: Sequence[ClusterRow]) -> list[ClusterFact]:
    offline = {each.name: each for each in clusters if each.state == "offline"}
    since: dict[str, datetime] = {}
    if offline:
        names = sa.literal([f"cluster-{name}" for name in offline], ARRAY(sa.Text))
        query = sa.select(events.c.stream, sa.func.max(events.c.time)).group_by(events.c.stream)
        went = query.where(events.c.stream == sa.any_(names), events.c.name == "ClusterWentOffline")
        since = {stream.removeprefix("cluster-"): time for stream, time in connection.execute(went)}
        # A cluster may have been added offline.
        times = times_of(connection, [each.position for name, each in offline.items() if name not in since])
        since |= {name: times[each.position] for name, each in offline.items() if each.position in times}
    return [
        ClusterFact(
            name=each.name, is_offline=each.name in offline, reason=each.reason, since=since.get(each.name)
        )
        for each in clusters
    ]


def _distributor_facts(
    rows: Sequence[DistributorRow],
    open_items: Sequence[OpenFact],
    refused: Sequence[ApplyFact],
    waiting: Mapping[tuple[str, int], datetime],
) -> list[DistributorFact]:
    troubled = {(each.cluster, each.level) for each in open_items}
    refusing = {each.cluster for each in refused}
    return [
        DistributorFact(
            cluster=row.cluster,
            level=row.level,
            target=row.target,
            state=row.observed.state,
            reason=row.observed.reason,
            in_time=row.observed.in_time,
            is_explained_elsewhere=row.observed.state == "degraded"
            and ((row.cluster, row.level) in troubled or bool(refusing & {row.cluster, row.target})),
            waiting_since=waiting.get((row.cluster, row.level)),
        )
        for row in rows
        if row.observed is not None
    ]


def _open(connection: Connection, counts: OpenCounts) -> tuple[list[OpenFact], list[OpenFact], list[OpenFact]]:
    """Return lost ranges, possible losses, and dead letters, of each distributor with any."""
    kinds = (counts.lost, counts.possibly_lost, counts.dead_letters)
    times = times_of(connection, {items.recorded for kind in kinds for items in kind.values()})
    lost, possible, dead = (
        [
            OpenFact(cluster=cluster, level=level, count=items.count, since=times.get(items.recorded))
            for (cluster, level), items in kind.items()
        ]
        for kind in kinds
    )
    return lost, possible, dead


def _not_as_declared(connection: Connection) -> tuple[list[ApplyFact], list[ApplyFact]]:
    """Return the streams that failed on each cluster, and those that drifted there and could not be set back."""
    t = stream_topics.c
    failed = sa.and_(as_of(stream_topics, None), t.failure.is_not(None), ~t.removing)
    name = sa.func.concat_ws("/", *(t[part] for part in STREAM))
    place = (t.cluster, t.state)

    def of_all(extreme: Any) -> Any:
        return extreme(t.failure).over(partition_by=place)

    numbered = sa.select(
        *place,
        name.label("stream"),
        sa.case((of_all(sa.func.min) == of_all(sa.func.max), t.failure)).label("reason"),
        sa.func.count().over(partition_by=place).label("total"),
        sa.func.min(t.valid_from).over(partition_by=place).label("first"),
        sa.func.row_number().over(partition_by=place, order_by=name).label("number"),
    ).where(failed)
    first = numbered.subquery()
    rows = connection.execute(sa.select(first).where(first.c.number == 1).order_by(first.c.cluster)).all()
    times = times_of(connection, {row.first for row in rows})
    not_applied: list[ApplyFact] = []
    drifted: list[ApplyFact] = []
    for row in rows:
        fact = ApplyFact(
            cluster=row.cluster,
            count=row.total,
            stream=row.stream,
            reason=row.reason,
            since=times.get(row.first),
        )
        (drifted if row.state == "applied" else not_applied).append(fact)
    return not_applied, drifted


def _replication(
    connection: Connection, clusters: Sequence[ClusterRow]
) -> tuple[list[ReplicationFact], dict[str, int]]:
    """Return the alerts of clusters that were observed lately, and their under-replicated partitions."""
    kept = cluster_replication.c
    count = kept.health[("conditions", "under_replicated", "count")].as_integer()
    query = sa.select(
        kept.kafka_cluster_id, kept.health["alerts"].label("alerts"), count.label("under_replicated")
    )
    fresh = sa.and_(kept.health.is_not(None), kept.seen_at > _NOW - timedelta(seconds=3 * STALE.total_seconds()))
    rows = {row.kafka_cluster_id: row for row in connection.execute(query.where(fresh))}
    found: list[ReplicationFact] = []
    counts: dict[str, int] = {}
    for each in clusters:
        row = rows.get(each.kafka_cluster_id)
        if row is None or each.state == "offline":
            continue
        counts[each.name] = row.under_replicated or 0
        found += [
            ReplicationFact(
                cluster=each.name,
                alert=alert["alert"],
                count=alert["count"],
                examples=tuple(alert["examples"]),
                what_to_do=alert["what_to_do"],
            )
            for alert in row.alerts or ()
        ]
    return found, counts


def _nodes(connection: Connection, now: datetime) -> list[NodeFact]:
    return [
        NodeFact(node=each.report.node, since=now - timedelta(seconds=each.liveness.silent_seconds))
        for each in list_nodes(connection)
        if each.is_unreachable
    ]


def _behind(connection: Connection) -> dict[str, int]:
    newest = head(connection).position
    places = runner.positions(connection, PROJECTIONS)
    return {name: newest - place for name, place in places.items() if place < newest}


def _active_tenants(connection: Connection) -> dict[str, int]:
    tenants: dict[str, set[str]] = defaultdict(set)
    for row in list_active(connection):
        if row.cluster is not None:
            tenants[row.cluster].add(row.tenant)
    return {cluster: len(names) for cluster, names in tenants.items()}
