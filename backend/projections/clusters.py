"""Projection of the clusters: one row per cluster and span of positions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.clusters.cluster import (
    ClusterAdded,
    ClusterCameOnline,
    ClusterChanged,
    ClusterRemoved,
    ClusterWentOffline,
)
from backend.domain.topics.replica_defaults import ClusterDefaultsSet
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, replace, temporal_table

clusters = temporal_table(
    "clusters",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("bootstrap_servers", sa.Text, nullable=False),
    sa.Column("zone", sa.Text),
    sa.Column("topic_format", sa.Text, nullable=False),
    sa.Column("group_format", sa.Text, nullable=False),
    sa.Column("subject_format", sa.Text, nullable=False),
    sa.Column("properties", JSONB, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("kafka_cluster_id", sa.Text),
    sa.Column("brokers", sa.Integer),
    # {replication_factor, min_insync_replicas} for streams that do not declare them; null within it: automatic.
    sa.Column("defaults", JSONB, nullable=False),
    # The defaults before the last change, of this cluster and not of an earlier one with its name.
    sa.Column("defaults_before", JSONB, nullable=False),
    # Version of the event that last described the cluster: going offline must not make an editor's copy stale.
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    key = {"name": recorded.stream.removeprefix("cluster-")}
    position = recorded.position
    match recorded.event:
        case ClusterAdded() as event:
            values = {name: value for name, value in vars(event).items() if name != "name"}
            values["state"] = "offline" if event.kafka_cluster_id is None else "online"
            none_set: dict[str, object] = {"defaults": {}, "defaults_before": {}}
            replace(rows, clusters, key, {**values, **none_set, "version": recorded.version}, position)
        case ClusterChanged() as event:
            change(rows, clusters, key, {**vars(event), "version": recorded.version}, position)
        case ClusterDefaultsSet() as event:
            present = current(rows, clusters, key)
            if present is not None:
                defaults = {"defaults": vars(event), "defaults_before": present["defaults"]}
                change(rows, clusters, key, {**defaults, "version": recorded.version}, position)
        case ClusterRemoved():
            replace(rows, clusters, key, None, position)
        case ClusterCameOnline() as event:
            change(rows, clusters, key, {**vars(event), "state": "online", "reason": None}, position)
        case ClusterWentOffline() as event:
            change(rows, clusters, key, {"state": "offline", "reason": event.reason}, position)


PROJECTION = Projection(
    name="clusters",
    events=frozenset(
        {
            ClusterAdded,
            ClusterChanged,
            ClusterDefaultsSet,
            ClusterRemoved,
            ClusterCameOnline,
            ClusterWentOffline,
        }
    ),
    tables=(clusters,),
    apply=_apply,
)
