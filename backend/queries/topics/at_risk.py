"""Unreplicated records: those that would be lost with a cluster now, since no other leaf has them yet.

A record is replicated once the furthest of the tasks that read its partition has copied it. Offsets are counted,
so this is an upper bound: control records, and copies at the end of the log, count as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.base.known import total
from backend.domain.distribution.assignment import Task
from backend.projections.temporal import as_of
from backend.projections.trees import tree_targets
from backend.queries.distribution.distributors import plans_changed_at, task_states_seen
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.settings import settings


def records_at_risk(connection: Connection) -> Mapping[str, int | None]:
    """Return the records at risk by source cluster; None where not everything is known."""
    query = sa.select(tree_targets.c.cluster, tree_targets.c.level).where(as_of(tree_targets, None))
    levels: dict[str, list[int]] = defaultdict(list)
    for cluster, level in connection.execute(query.order_by(*tree_targets.primary_key.columns)):
        levels[cluster].append(level)
    states, since = task_states_seen(connection), plans_changed_at(connection)

    def left(task: Task) -> int | None:
        row = states.get(task.name)
        # A task that does not know a stream yet does not know its lag.
        lag = None if row is None or row.silent or row.position < since else row.lag_records
        return None if lag is None else int(lag)

    found: dict[str, int | None] = {}
    count = partition_buckets(connection, settings())
    for cluster, at in levels.items():
        buckets = [
            min((lag for level in at if (lag := left(Task(cluster, level, bucket))) is not None), default=None)
            for bucket in range(count)
        ]
        found[cluster] = total(buckets)
    return found
