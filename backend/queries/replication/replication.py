"""Queries and storage of clusters' observed replication, current or as of an earlier observation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.replication.topic_replication import TopicReplication
from backend.queries.base.observed import cluster_replication
from backend.queries.history.snapshot_tables import REPLICATION
from backend.queries.history.snapshots import Snapshot, seen

# The time of the statement: the observation itself took a while.
_NOW = sa.func.clock_timestamp()
_AGE = sa.func.extract("epoch", _NOW - cluster_replication.c.seen_at)
_TOPICS = "declared_topics"


@dataclass(frozen=True, kw_only=True)
class ReplicationRow:
    """Last successful observation of a cluster; None where there was none."""

    health: dict[str, Any] | None
    """JSON of `domain.replication_health.Health`, with the topics unlike their declarations, and `alerts`. The
    stored document also has `declared_topics`, each as `domain.topic_replication.TopicReplication`.
    """
    age_seconds: float | None
    """Seconds since the observation, by the database's clock."""
    reason: str | None
    """Reason for which later observations failed."""
    observed_at: datetime | None = None
    """Time of the observation; None for an earlier position, too."""


def find_replication(connection: Connection, kafka_cluster_id: str | None) -> ReplicationRow:
    """Return the observation of a Kafka cluster by its id; an empty row if it has never answered."""
    return list_replication(connection, [kafka_cluster_id])[0]


def list_replication(connection: Connection, kafka_cluster_ids: Sequence[str | None]) -> list[ReplicationRow]:
    """Return the observations of several clusters, in their order."""
    kept = cluster_replication.c
    # There are many topics; they are queried by name.
    health = kept.health.delete_path([_TOPICS]).label("health")
    query = sa.select(kept.kafka_cluster_id, kept.reason, health, _AGE.label("age"), kept.seen_at)
    known = [each for each in kafka_cluster_ids if each is not None]
    rows = connection.execute(query.where(kept.kafka_cluster_id.in_(known)))
    found = {
        row.kafka_cluster_id: ReplicationRow(
            health=row.health, age_seconds=_seconds(row.age), reason=row.reason, observed_at=row.seen_at
        )
        for row in rows
    }
    nothing = ReplicationRow(health=None, age_seconds=None, reason=None)
    return [nothing if each is None else found.get(each, nothing) for each in kafka_cluster_ids]


def find_past_replication(
    connection: Connection, kafka_cluster_id: str | None, snapshot: Snapshot | None
) -> ReplicationRow:
    """Return what an earlier observation has on a Kafka cluster; its age is as of that observation."""
    row = None
    if snapshot is not None:
        found = seen(REPLICATION, snapshot)
        query = found.select(snapshot).where(found.keys.c.kafka_cluster_id == kafka_cluster_id)
        row = connection.execute(query).one_or_none()
    if snapshot is None or row is None:
        return ReplicationRow(health=None, age_seconds=None, reason=None)
    if row.health is None:
        age = None
    elif row.seen_at is not None and (row.is_stale or row.reason is not None):
        age = (snapshot.moment - row.seen_at).total_seconds()
    else:
        age = snapshot.seconds_before
    return ReplicationRow(health=row.health, age_seconds=age, reason=row.reason)


def find_topics(
    connection: Connection, topics: Mapping[str, tuple[str | None, str]]
) -> dict[str, tuple[TopicReplication, float]]:
    """Return the replication of one topic on each cluster, and its age in seconds, by the keys of `topics`.

    The values of `topics` are the Kafka cluster's id and the topic's name there. Topics that were not observed are
    left out.
    """
    found = {}
    for key, (kafka_cluster_id, topic) in topics.items():
        one = cluster_replication.c.health[(_TOPICS, topic)]
        query = sa.select(one.label("topic"), _AGE.label("age"))
        query = query.where(cluster_replication.c.kafka_cluster_id == kafka_cluster_id)
        row = connection.execute(query).one_or_none()
        if row is not None and row.topic is not None:
            found[key] = (TopicReplication(**row.topic), _seconds(row.age) or 0.0)
    return found


def store_health(connection: Connection, kafka_cluster_id: str, health: dict[str, Any]) -> None:
    """Store a new observation in place of the previous one."""
    _keep(connection, kafka_cluster_id, seen_at=_NOW, health=health, reason=None)


def store_sizes(connection: Connection, kafka_cluster_id: str, sizes: dict[str, Any] | None) -> None:
    """Store the bytes of each broker's replicas, and those appended per second; None if they cannot be read."""
    _keep(connection, kafka_cluster_id, sizes=sizes)


def store_failure(connection: Connection, kafka_cluster_id: str, reason: str) -> None:
    """Store why an observation failed; the previous observation stays and ages."""
    _keep(connection, kafka_cluster_id, reason=reason)


def delete_except(connection: Connection, kafka_cluster_ids: Collection[str]) -> None:
    """Delete clusters that are no longer known."""
    others = cluster_replication.c.kafka_cluster_id.not_in(kafka_cluster_ids)
    connection.execute(sa.delete(cluster_replication).where(others))


def _seconds(age: Any) -> float | None:
    return None if age is None else max(0.0, float(age))


def _keep(connection: Connection, kafka_cluster_id: str, **values: Any) -> None:
    row = insert(cluster_replication).values(kafka_cluster_id=kafka_cluster_id, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["kafka_cluster_id"], set_=values))
