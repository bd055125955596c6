"""Declared replication factors of topics, by cluster."""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.topics.stream_settings import INTERNAL_REPLICAS
from backend.queries.base.observed import internal_topics
from backend.queries.tenants.streams import list_streams


def declared_factors(connection: Connection) -> dict[str, dict[str, int]]:
    """Return the factors by cluster and topic, for recorded topics and our own internal streams.

    The cluster may have fewer brokers.
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in list_streams(connection):
        for cluster in row.topic_ids:
            found[cluster][row.technical_names[cluster]] = row.replicas[cluster].factor
    for topic in connection.execute(sa.select(internal_topics.c.topic, internal_topics.c.cluster)):
        found[topic.cluster][topic.topic] = INTERNAL_REPLICAS
    return dict(found)
