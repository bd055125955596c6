"""The replication factors that are declared of the topics of clusters."""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.topics.stream_settings import INTERNAL_REPLICAS
from backend.queries.base.observed import internal_topics
from backend.queries.tenants.streams import list_streams


def declared_factors(connection: Connection) -> dict[str, dict[str, int]]:
    """By cluster and topic, of those topics that are recorded to be there, our own internal streams with them;
    whether or not the cluster has brokers enough."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in list_streams(connection):
        for cluster in row.topic_ids:
            found[cluster][row.technical_names[cluster]] = row.replicas[cluster].factor
    for topic in connection.execute(sa.select(internal_topics.c.topic, internal_topics.c.cluster)):
        found[topic.cluster][topic.topic] = INTERNAL_REPLICAS
    return dict(found)
