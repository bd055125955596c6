"""Topic settings of a stream that differ between its clusters, as last observed by workers."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.topics.steps import topic_config
from backend.domain.topics.topic_drift import Drift, TopicSeen, drifts
from backend.queries.base.observed import topic_defaults, topic_overrides
from backend.queries.tenants.streams import StreamRow


def stream_drift(connection: Connection, row: StreamRow) -> list[Drift]:
    """Return the settings that differ now; clusters that were not polled yet are left out."""
    return drifts(declared_config(row), topics_seen(connection, row))


def topics_seen(connection: Connection, row: StreamRow) -> dict[str, TopicSeen]:
    """Return the last observation of the stream's topic on each cluster that was polled."""
    clusters = list(row.topic_ids)
    own = sa.select(topic_overrides.c.cluster, topic_overrides.c.own).where(topic_overrides.c.stream == row.stream)
    overrides: dict[str, dict[str, str]] = {row.cluster: row.own for row in connection.execute(own)}
    known = sa.select(topic_defaults.c.cluster, topic_defaults.c.defaults)
    rows = connection.execute(known.where(topic_defaults.c.cluster.in_(clusters)))
    defaults: dict[str, dict[str, str]] = {row.cluster: row.defaults for row in rows}
    return {
        cluster: TopicSeen(own=overrides.get(cluster, {}), defaults=defaults[cluster])
        for cluster in clusters
        if cluster in defaults
    }


def declared_config(row: StreamRow) -> dict[str, str]:
    """Return the configuration that every topic of the stream should have."""
    return topic_config(
        retention_ms=row.retention_ms,
        cleanup_policy=row.cleanup_policy,
        max_message_bytes=row.max_message_bytes,
        distributed=row.distributed,
        config=row.config,
    )
