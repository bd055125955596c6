"""Topics that are affected by a change of a cluster's replica defaults."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.topics.replica_defaults import ReplicaDefaults, replicas_for
from backend.projections.streams import STREAM, stream_topics, streams
from backend.projections.temporal import as_of
from backend.queries.clusters.clusters import ClusterRow


@dataclass(frozen=True, kw_only=True)
class Affected:
    """Numbers of existing topics that differ from the cluster's defaults."""

    factor: int
    """Topics of streams without a declared factor that have another number of replicas than new ones get."""
    minimum: int
    """Topics whose min.insync.replicas differs between these defaults and those before."""


def affected_topics(connection: Connection, cluster: ClusterRow, before: ReplicaDefaults) -> Affected:
    """Count the cluster's topics for which its defaults give another result than `before`."""
    same = sa.and_(*(stream_topics.c[part] == streams.c[part] for part in STREAM))
    # Topics with the same three numbers are counted together: there may be tens of thousands.
    kinds = (streams.c.replication_factor, streams.c.min_insync_replicas, stream_topics.c.replication_factor)
    query = (
        sa.select(*kinds, sa.func.count())
        .select_from(stream_topics.join(streams, sa.and_(same, as_of(streams, None))))
        .where(as_of(stream_topics, None), stream_topics.c.cluster == cluster.name, ~stream_topics.c.removing)
        .where(stream_topics.c.topic_id.is_not(None))
        .group_by(*kinds)
    )
    factors = minima = 0
    for factor, minimum, present, count in connection.execute(query):
        now, then = (replicas_for(factor, minimum, each) for each in (cluster.defaults, before))
        wanted = now.factor if cluster.brokers is None else min(now.factor, max(cluster.brokers, 1))
        factors += count if factor is None and present != wanted else 0
        minima += count if now.minimum_of(present) != then.minimum_of(present) else 0
    return Affected(factor=factors, minimum=minima)
