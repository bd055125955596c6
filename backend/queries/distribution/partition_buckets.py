"""Number of tasks of each distributor: it follows the number of distributed partitions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.distribution import assignment
from backend.projections.leaf_routes import GONE, MAIN, leaf_routes
from backend.projections.streams import streams
from backend.projections.temporal import as_of
from backend.queries.base.observed import internal_topics
from backend.settings import Settings

_DECLARED = sa.select(sa.func.coalesce(sa.func.sum(streams.c.partitions), 0)).where(
    streams.c.distributed, as_of(streams, None)
)
_EACH_INTERNAL = sa.select(sa.func.min(internal_topics.c.partitions).label("partitions")).group_by(
    internal_topics.c.topic
)
_INTERNAL = sa.select(sa.func.coalesce(sa.func.sum(_EACH_INTERNAL.subquery().c.partitions), 0))
_NOW = sa.select(sa.func.coalesce(sa.func.max(leaf_routes.c.buckets), 0)).where(
    leaf_routes.c.tree == MAIN, leaf_routes.c.digest != GONE, as_of(leaf_routes, None)
)


def partition_buckets(connection: Connection, config: Settings) -> int:
    """Return the number of tasks that each distributor should have, the same for every process.

    Without origins it is the setting's: no vector would tell a task what another one has copied before it.
    """
    if not config.origin_header:
        return config.partition_buckets
    counted = sa.select(_DECLARED.scalar_subquery() + _INTERNAL.scalar_subquery(), _NOW.scalar_subquery())
    partitions, now = connection.execute(counted).one()
    return assignment.buckets_for(
        int(partitions), least=config.partition_buckets, most_each=config.partitions_per_bucket, now=now
    )
