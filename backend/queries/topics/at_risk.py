"""What would be lost if a cluster died now: records that no other leaf has yet, from what workers see.

A record is elsewhere once the furthest of the units that read its partition has it. Offsets are counted, so this
is what is at risk at most: markers of transactions, and copies that lie at the end of the log, count as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.base.known import total
from backend.domain.distribution.assignment import Unit
from backend.projections.temporal import as_of
from backend.projections.trees import tree_targets
from backend.queries.distribution.distributors import asked_since, units_seen
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.settings import settings


def records_at_risk(connection: Connection) -> Mapping[str, int | None]:
    """Cluster that distributors read -> records; None where not all of it is known."""
    query = sa.select(tree_targets.c.cluster, tree_targets.c.level).where(as_of(tree_targets, None))
    levels: dict[str, list[int]] = defaultdict(list)
    for cluster, level in connection.execute(query.order_by(*tree_targets.primary_key.columns)):
        levels[cluster].append(level)
    units, since = units_seen(connection), asked_since(connection)

    def left(unit: Unit) -> int | None:
        row = units.get(unit.name)
        # One that does not know a stream yet knows nothing of what waits in it.
        lag = None if row is None or row.silent or row.position < since else row.lag_records
        return None if lag is None else int(lag)

    found: dict[str, int | None] = {}
    count = partition_buckets(connection, settings())
    for cluster, at in levels.items():
        buckets = [
            min((lag for level in at if (lag := left(Unit(cluster, level, bucket))) is not None), default=None)
            for bucket in range(count)
        ]
        found[cluster] = total(buckets)
    return found
