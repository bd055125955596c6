"""Consumer groups whose diagnosis is a problem, counted by diagnosis, with those that lag most."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from backend.domain.offsets.group_diagnosis import SLOWER
from backend.domain.overview.estate_facts import GroupFact, GroupsFact
from backend.domain.overview.group_problems import CODES, LASTING, LATE_MS
from backend.domain.overview.problems import FEW
from backend.projections.active_clusters import active_clusters
from backend.projections.temporal import as_of
from backend.queries.offsets.group_tables import observed_groups
from backend.queries.offsets.group_views import is_seen
from backend.queries.offsets.observed_groups import GroupSummary, GroupsWanted, list_summaries
from backend.queries.switch.switches import held_environments

_MOST_SHARED = 200
"""Most groups, shared with other tenants, whose diagnosis is computed for a tenant."""
_COLUMNS = (
    sa.column("cluster", sa.Text),
    sa.column("technical_group", sa.Text),
    sa.column("name", sa.Text),
    sa.column("place", sa.Text),
    sa.column("member_count", sa.Integer),
    sa.column("lag_records", sa.BigInteger),
    sa.column("time_lag_ms", sa.BigInteger),
    sa.column("time_lag_at_least_ms", sa.BigInteger),
    sa.column("code", sa.Text),
    sa.column("text", sa.Text),
    sa.column("since_ms", sa.BigInteger),
)
"""A group as the reader sees it: the whole of it, or the part that the reader's tenants have."""
Columns = ReadOnlyColumnCollection[str, Any]


def groups_with_problems(
    connection: Connection, now: datetime, tenants: Collection[str] | None = None
) -> list[GroupsFact]:
    """Return the problems of groups by diagnosis; `tenants`: those of groups that members of these tenants see."""
    held = held_environments(connection)
    shared = [] if tenants is None else _shared(connection, tenants, held)
    t = _seen(tenants, shared).subquery("seen").c
    # Consumers that a switch holds are told by the switch.
    is_held = sa.or_(sa.false(), *(sa.and_(t.cluster == cluster, t.place == place) for cluster, place in held))
    order = (sa.func.coalesce(t.lag_records, -1).desc(), t.cluster, t.technical_group)
    numbered = (
        sa.select(
            t.cluster,
            t.technical_group,
            t.name,
            t.code,
            t.text,
            t.since_ms,
            sa.func.count().over(partition_by=t.code).label("total"),
            sa.func.row_number().over(partition_by=t.code, order_by=order).label("number"),
        )
        .where(_is_problem(t, now), sa.func.coalesce(~is_held, sa.true()))
        .subquery()
    )
    rows = connection.execute(
        sa.select(numbered).where(numbered.c.number <= FEW).order_by(numbered.c.number)
    ).all()
    return [
        GroupsFact(
            code=code,
            count=next(row.total for row in rows if row.code == code),
            worst=[_fact(row) for row in rows if row.code == code],
        )
        for code in dict.fromkeys(row.code for row in rows)
    ]


def count_groups(connection: Connection, tenants: Collection[str]) -> int:
    """Count the groups of which members of these tenants see at least a part."""
    query = sa.select(sa.func.count()).select_from(observed_groups).where(is_seen(tenants))
    return int(connection.execute(query).scalar_one())


def _is_problem(t: Columns, now: datetime) -> ColumnElement[bool]:
    lasting_ms = round(1000 * (now - LASTING).timestamp())
    late = sa.func.coalesce(t.time_lag_ms, t.time_lag_at_least_ms, 0) >= LATE_MS
    return sa.and_(
        t.code.in_(CODES),
        sa.or_(t.since_ms.is_(None), t.since_ms <= lasting_ms),
        sa.or_(t.code != SLOWER, late),
        ~_is_follower(t),
    )


def _is_follower(t: Columns) -> ColumnElement[bool]:
    """Return the condition for groups whose clients are elsewhere: here are only their translated offsets."""
    a = active_clusters.c
    place = sa.func.concat_ws("/", a.tenant, a.instance, a.environment)
    active = sa.select(place, a.cluster).where(as_of(active_clusters, None), a.cluster.is_not(None))
    return sa.func.coalesce(
        sa.and_(
            t.member_count == 0,
            t.place.in_(active.with_only_columns(place)),
            sa.tuple_(t.place, t.cluster).not_in(active),
        ),
        sa.false(),
    )


def _seen(tenants: Collection[str] | None, shared: Sequence[GroupSummary]) -> Select[Any] | CompoundSelect[Any]:
    """Return a query of the groups that the reader sees, with `_COLUMNS`; `shared`: those seen in part."""
    t = observed_groups.c
    stored = sa.select(
        t.cluster,
        t.technical_group,
        sa.func.coalesce(t.group, t.technical_group).label("name"),
        t.place,
        t.member_count,
        t.lag_records,
        t.time_lag_ms,
        t.time_lag_at_least_ms,
        t.diagnosis_code.label("code"),
        t.diagnosis_text.label("text"),
        t.since_ms,
    )
    if tenants is None:
        return stored
    whole = stored.where(is_seen(tenants), ~t.is_shared)
    return sa.union_all(whole, _as_rows(shared)) if shared else whole


def _shared(
    connection: Connection, tenants: Collection[str], held: Mapping[tuple[str, str], str]
) -> list[GroupSummary]:
    """Return shared groups, with the sums and the diagnosis of what members of these tenants see of them."""
    wanted = GroupsWanted(tenants=tenants, by_lag=True, limit=_MOST_SHARED, only_shared=True, holding=held)
    return list_summaries(connection, wanted)


def _as_rows(groups: Sequence[GroupSummary]) -> Select[Any]:
    """Return a query of these groups, with `_COLUMNS`."""
    rows = [
        {
            **{each.name: getattr(group, each.name, None) for each in _COLUMNS},
            "name": group.group or group.technical_group,
            "code": group.diagnosis.code,
            "text": group.diagnosis.text,
        }
        for group in groups
    ]
    given = sa.func.jsonb_to_recordset(sa.bindparam("groups", rows, JSONB))
    return sa.select(given.table_valued(*_COLUMNS).render_derived("given", with_types=True))


def _fact(row: Any) -> GroupFact:
    return GroupFact(
        cluster=row.cluster,
        technical_group=row.technical_group,
        name=row.name,
        text=row.text,
        since=None if row.since_ms is None else datetime.fromtimestamp(row.since_ms / 1000, UTC),
    )
