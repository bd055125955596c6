"""The current values of all measures, read from what workers and nodes last reported.

Nothing is requested from Kafka. A report older than a few minutes says nothing about now and is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.history.series_ids import Series
from backend.domain.history.zone_bytes import Counts, bytes_since
from backend.domain.zones.zone_traffic import crosses
from backend.projections.clusters import clusters
from backend.projections.temporal import as_of
from backend.queries.base.observed import cluster_replication
from backend.queries.distribution.distributors import read_distributors
from backend.queries.offsets.group_tables import observed_groups
from backend.queries.zones.zone_router import list_nodes

REPORTS_COUNT_SECONDS = 180
_RECENT = sa.func.clock_timestamp() - timedelta(seconds=REPORTS_COUNT_SECONDS)

Value = tuple[Series, float]


@dataclass(frozen=True, kw_only=True)
class CurrentValues:
    """Values of all series at one time."""

    values: dict[Series, float]
    zone_counts: Counts
    """Counters that the next values are compared with."""


def read_current(connection: Connection, counts_before: Counts | None) -> CurrentValues:
    """Return the current values; `counts_before` are the counters of a minute ago, None if they are not known."""
    values = dict([*_edges(connection), *_groups(connection), *_clusters(connection)])
    counts = zone_counts(connection)
    if counts_before is not None:
        between = bytes_since(counts_before, counts)
        values |= {("zones.cross_zone_bytes", pair): float(size) for pair, size in between.items()}
    return CurrentValues(values=values, zone_counts=counts)


def _edges(connection: Connection) -> Iterator[Value]:
    for row in read_distributors(connection):
        subject, seen = f"{row.cluster}:{row.level}", row.observed
        if seen is not None:
            yield from _known("edge.records_per_second", subject, seen.records_per_second)
            yield from _known("edge.lag_records", subject, seen.lag_records)
            yield from _known("edge.wait_seconds", subject, seen.wait_seconds)


def _groups(connection: Connection) -> Iterator[Value]:
    of = observed_groups.c
    query = sa.select(of.cluster, of.technical_group, of.lag_records, of.records_per_second)
    for row in connection.execute(query.where(of.observed_at > _RECENT)):
        subject = f"{row.cluster}/{row.technical_group}"
        yield from _known("group.lag_records", subject, row.lag_records)
        yield from _known("group.records_per_second", subject, row.records_per_second)


def _clusters(connection: Connection) -> Iterator[Value]:
    of = cluster_replication.c
    age = sa.func.extract("epoch", sa.func.clock_timestamp() - of.seen_at).label("age")
    shown = [
        clusters.c.name,
        age,
        of.health["brokers"].label("brokers"),
        of.health[("conditions", "under_replicated", "count")].as_integer().label("under_replicated"),
        of.health[("conditions", "without_leader", "count")].as_integer().label("offline"),
        of.sizes,
    ]
    query = sa.select(*shown).join(clusters, clusters.c.kafka_cluster_id == of.kafka_cluster_id)
    for row in connection.execute(query.where(as_of(clusters, None), of.seen_at > _RECENT)):
        yield from _known("cluster.under_replicated_partitions", row.name, row.under_replicated)
        yield from _known("cluster.offline_partitions", row.name, row.offline)
        for broker in row.brokers or ():
            yield from _known("broker.leaders", f"{row.name}/{broker['id']}", broker["leaders"])
            yield from _known("broker.replicas", f"{row.name}/{broker['id']}", broker["replicas"])
        yield from _sizes(row.name, row.sizes)


def _sizes(cluster: str, sizes: dict[str, Any] | None) -> Iterator[Value]:
    if sizes is not None:
        yield from _known("cluster.bytes_in_per_second", cluster, sizes["bytes_in_per_second"])
        for broker, size in sizes["brokers"].items():
            yield from _known("broker.bytes", f"{cluster}/{broker}", size)


def zone_counts(connection: Connection) -> Counts:
    """Return the bytes that each node of the zone router has counted between different zones.

    Silent nodes are left out.
    """
    found: dict[str, Counter[str]] = {}
    for row in list_nodes(connection):
        if row.liveness.silent_seconds <= REPORTS_COUNT_SECONDS:
            counts = found.setdefault(row.report.node, Counter())
            for hop in row.report.traffic:
                if crosses(hop.from_zone, hop.to_zone):
                    counts[f"{hop.from_zone}>{hop.to_zone}"] += hop.bytes
    return found


def _known(metric: str, subject: str, value: float | None) -> Iterator[Value]:
    if value is not None:
        yield (metric, subject), float(value)
