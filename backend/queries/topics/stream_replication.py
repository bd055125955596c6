"""Replication of a stream's topics on its clusters: as declared, and as last observed by workers."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from backend.domain.replication.topic_replication import TopicReplication, acks_advice, unclean_advice
from backend.queries.clusters.clusters import list_clusters
from backend.queries.replication.replication import find_topics
from backend.queries.tenants.streams import StreamRow


@dataclass(frozen=True, kw_only=True)
class ReplicatedOn:
    """A stream's topic on one cluster. None means not observed (yet)."""

    declared: int
    """Configured replicas, for which a cluster may have too few brokers; without a declaration those of the
    cluster's default, as far as it has brokers."""
    present: int | None
    """Replicas of the partition that has the fewest; replicas that are still being copied do not count."""
    moving: bool | None
    min_insync_replicas: int | None
    """Effective value."""
    unclean_election: bool | None
    age_seconds: float | None
    """Seconds since the poll, by the database's clock."""

    @property
    def advice(self) -> str | None:
        """Return what a producer with acks=all may rely on."""
        if self.present is None or self.min_insync_replicas is None or self.unclean_election is None:
            return None
        promise = acks_advice(self.present, self.min_insync_replicas)
        return f"{promise}; {unclean_advice(self.unclean_election)}"


def stream_replication(connection: Connection, row: StreamRow) -> dict[str, ReplicatedOn]:
    """Return the current replication by cluster of the stream's tree."""
    ids = {each.name: each.kafka_cluster_id for each in list_clusters(connection)}
    seen = find_topics(connection, {name: (ids.get(name), topic) for name, topic in row.technical_names.items()})
    return {
        cluster: _on(row.replication_factor or row.expected[cluster][0], seen.get(cluster))
        for cluster in row.technical_names
    }


def _on(declared: int, seen: tuple[TopicReplication, float] | None) -> ReplicatedOn:
    topic, age = seen or (None, None)
    return ReplicatedOn(
        declared=declared,
        present=topic.fewest if topic else None,
        moving=topic.moving if topic else None,
        min_insync_replicas=topic.min_insync_replicas if topic else None,
        unclean_election=topic.unclean_election if topic else None,
        age_seconds=age,
    )
