"""State of what the members of one or more tenants see, for their overview."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.overview.estate_facts import StreamFact, TenantFacts
from backend.projections.streams import STREAM, stream_topics, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.projections.trees import tree_leaves
from backend.queries.base.events import times_of
from backend.queries.overview.group_facts import count_groups, groups_with_problems
from backend.queries.overview.switch_facts import switches_of_note

_MOST_NAMED = 200
"""Most streams whose names and times are read; more are only counted."""


def read_tenants(connection: Connection, tenants: Collection[str]) -> TenantFacts:
    """Return the facts about these tenants, and about no other."""
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    theirs = streams.c.tenant == sa.any_(sa.literal(sorted(tenants), ARRAY(sa.Text)))
    total = sa.select(sa.func.count()).select_from(streams).where(as_of(streams, None), theirs)
    pending, more_pending = _pending(connection, theirs)
    return TenantFacts(
        now=now,
        streams=int(connection.execute(total).scalar_one()),
        groups_observed=count_groups(connection, tenants),
        pending=pending,
        more_pending=more_pending,
        groups=groups_with_problems(connection, now, tenants),
        switches=switches_of_note(connection, now, tenants),
    )


def _pending(connection: Connection, theirs: sa.ColumnElement[bool]) -> tuple[list[StreamFact], int]:
    """Return streams that are not applied on all clusters of their tree, failed ones first, and how many more."""
    s, t, i = streams.c, stream_topics.c, instances.c
    same = sa.and_(*(t[part] == s[part] for part in STREAM), as_of(stream_topics, None), ~t.removing)
    in_tree = sa.and_(i.tenant == s.tenant, i.name == s.instance, as_of(instances, None))
    leaf = sa.and_(tree_leaves.c.tree == i.tree, as_of(tree_leaves, None))
    topic = sa.and_(same, t.cluster == tree_leaves.c.cluster)
    applied = sa.func.count().filter(t.state == "applied")
    has_failed = sa.func.coalesce(sa.func.bool_or(t.state == "failed"), sa.false())
    pending = (
        sa.select(
            *(s[part] for part in STREAM),
            s.valid_from,
            sa.func.count().label("clusters"),
            applied.label("applied"),
            has_failed.label("has_failed"),
        )
        .join(instances, in_tree)
        .join(tree_leaves, leaf)
        .outerjoin(stream_topics, topic)
        .where(as_of(streams, None), theirs)
        .group_by(*(s[part] for part in STREAM), s.valid_from)
        .having(applied < sa.func.count())
    )
    order = (has_failed.desc(), *(s[part] for part in STREAM))
    rows = connection.execute(pending.order_by(*order).limit(_MOST_NAMED)).all()
    more = 0
    if len(rows) == _MOST_NAMED:
        total = sa.select(sa.func.count()).select_from(pending.subquery())
        more = int(connection.execute(total).scalar_one()) - len(rows)
    times = times_of(connection, {row.valid_from for row in rows})
    found = [
        StreamFact(
            stream="/".join(row[: len(STREAM)]),
            applied=row.applied,
            clusters=row.clusters,
            has_failed=row.has_failed,
            since=times.get(row.valid_from),
        )
        for row in rows
    ]
    return found, more
