"""Desired state of the reconcile loop: clusters to poll, topics to have, topics to delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.switch.cluster_switch import MOVES_CLIENTS, PHASE_EVENTS
from backend.domain.topics.replica_defaults import AUTOMATIC_MINIMUM, ReplicaDefaults, replicas_for
from backend.domain.topics.steps import UnwantedTopic, WantedTopic, topic_config
from backend.domain.topics.stream_settings import DEFAULT_MAX_MESSAGE_BYTES, INTERNAL_REPLICAS
from backend.domain.tree import tree_shape
from backend.queries.base.events import newest_position
from backend.queries.base.observed import internal_topics
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.tenants.streams import StreamRow, list_deleted, list_streams
from backend.queries.topics.topic_drift import declared_config
from backend.queries.tree.trees import get_tree
from backend.settings import Settings

INTERNAL_RETENTION_MS = 3_600_000


@dataclass(frozen=True)
class Wanted:
    """The desired state of topics at one moment."""

    clusters: list[ClusterRow]
    topics: list[WantedTopic]
    deleted: list[UnwantedTopic]

    def topics_on(self, cluster: str) -> list[WantedTopic]:
        """Return the topics that a cluster should have."""
        return [row for row in self.topics if row.cluster == cluster]

    def deleted_on(self, cluster: str) -> list[str]:
        """Return the names of topics that a cluster should no longer have."""
        return [row.topic for row in self.deleted if row.cluster == cluster]


def position(connection: Connection) -> int:
    """Return the position of the newest event that may change the desired state.

    Phases of a switch do not change it: otherwise every process would poll everything while clients are held.
    """
    return newest_position(connection, but=PHASE_EVENTS | MOVES_CLIENTS)


def read(connection: Connection, settings: Settings) -> Wanted:
    """Return the current desired state."""
    clusters = list_clusters(connection)
    # A stream that is read a moment later may be on a cluster that was added in between.
    before = {row.name: row.defaults_before for row in clusters}
    topics = [topic for row in list_streams(connection) for topic in _of_stream(row, before)]
    deleted = [
        UnwantedTopic(
            stream=row.stream,
            cluster=row.cluster,
            topic=row.technical_name,
            topic_id=row.topic_id,
            unconfirmed=row.unconfirmed,
        )
        for row in list_deleted(connection)
    ]
    return Wanted(clusters, topics + _internal(connection, settings), deleted)


def _of_stream(row: StreamRow, before: Mapping[str, ReplicaDefaults]) -> list[WantedTopic]:
    return [
        WantedTopic(
            stream=row.stream,
            cluster=cluster,
            topic=topic,
            partitions=row.partitions,
            replication_factor=row.replicas[cluster].factor,
            min_insync_replicas=row.replicas[cluster].minimum,
            leaves_one=row.replicas[cluster].leaves_one,
            replicas_before=replicas_for(row.replication_factor, row.min_insync_replicas, before[cluster])
            if cluster in before
            else None,
            config=declared_config(row),
            released=frozenset(row.released),
            revision=row.revision,
            applied=row.applied[cluster] == "applied",
            topic_id=row.topic_ids.get(cluster),
            failure=row.failures.get(cluster),
            recorded_factor=row.factors.get(cluster),
        )
        for cluster, topic in row.technical_names.items()
    ]


def _internal(connection: Connection, settings: Settings) -> list[WantedTopic]:
    """Return the internal streams' topics, on every leaf of the tree."""
    tree = get_tree(connection)
    if tree is None:
        return []
    root = tree.shape
    wanted = {
        settings.verify_stream: (settings.verify_partitions, "delete"),
        settings.offsets_topic: (settings.offsets_partitions, "compact"),
    }
    known = {(row.topic, row.cluster): row.topic_id for row in connection.execute(sa.select(internal_topics))}
    return [
        WantedTopic(
            stream=topic,
            cluster=cluster,
            topic=topic,
            partitions=partitions,
            replication_factor=INTERNAL_REPLICAS,
            min_insync_replicas=AUTOMATIC_MINIMUM,
            leaves_one=True,
            config=topic_config(
                retention_ms=INTERNAL_RETENTION_MS,
                cleanup_policy=policy,
                max_message_bytes=DEFAULT_MAX_MESSAGE_BYTES,
                distributed=True,
                config={},
            ),
            revision=None,
            applied=(topic, cluster) in known,
            topic_id=known.get((topic, cluster)),
        )
        for topic, (partitions, policy) in wanted.items()
        for cluster in tree_shape.leaves(root)
    ]
