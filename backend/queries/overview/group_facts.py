"""Consumer groups whose diagnosis is a problem, counted by diagnosis, with those that lag most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from backend.domain.offsets.group_diagnosis import SLOWER
from backend.domain.overview.estate_facts import GroupFact, GroupsFact
from backend.domain.overview.group_problems import CODES, LASTING, LATE_MS
from backend.domain.overview.problems import FEW
from backend.domain.switch.switch_facts import Place
from backend.projections.active_clusters import active_clusters
from backend.projections.temporal import as_of
from backend.queries.offsets.group_tables import observed_groups
from backend.queries.offsets.group_views import is_seen
from backend.queries.offsets.observed_groups import GroupSummary, GroupsWanted, list_summaries
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import held_environments

_MOST_SHARED = 200
"""Most groups, shared with other tenants, whose diagnosis is computed for a tenant."""


def groups_with_problems(
    connection: Connection, now: datetime, tenants: Collection[str] | None = None
) -> list[GroupsFact]:
    """Return the problems of groups by diagnosis; `tenants`: those of groups that members of these tenants see."""
    held = held_environments(connection)
    found = _stored(connection, now, tenants, held)
    if tenants is None:
        return found
    shared = _shared(connection, now, tenants, held)
    return _together(found, shared)


def count_groups(connection: Connection, tenants: Collection[str]) -> int:
    """Count the groups of which members of these tenants see at least a part."""
    query = sa.select(sa.func.count()).select_from(observed_groups).where(is_seen(tenants))
    return int(connection.execute(query).scalar_one())


def _is_problem(now: datetime) -> ColumnElement[bool]:
    t = observed_groups.c
    lasting_ms = round(1000 * (now - LASTING).timestamp())
    late = sa.func.coalesce(t.time_lag_ms, t.time_lag_at_least_ms, 0) >= LATE_MS
    return sa.and_(
        t.diagnosis_code.in_(CODES),
        sa.or_(t.since_ms.is_(None), t.since_ms <= lasting_ms),
        sa.or_(t.diagnosis_code != SLOWER, late),
        ~_is_follower(),
    )


def _is_follower() -> ColumnElement[bool]:
    """Return the condition for groups whose clients are elsewhere: here are only their translated offsets."""
    t, a = observed_groups.c, active_clusters.c
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


def _stored(
    connection: Connection, now: datetime, tenants: Collection[str] | None, held: Mapping[tuple[str, str], str]
) -> list[GroupsFact]:
    """Return the problems of groups whose stored diagnosis is what the reader sees."""
    t = observed_groups.c
    is_its = sa.true() if tenants is None else sa.and_(is_seen(tenants), ~t.is_shared)
    # Consumers that a switch holds are told by the switch.
    is_held = sa.or_(sa.false(), *(sa.and_(t.cluster == cluster, t.place == place) for cluster, place in held))
    order = (sa.func.coalesce(t.lag_records, -1).desc(), t.cluster, t.technical_group)
    numbered = (
        sa.select(
            t.cluster,
            t.technical_group,
            sa.func.coalesce(t.group, t.technical_group).label("name"),
            t.diagnosis_code.label("code"),
            t.diagnosis_text.label("text"),
            t.since_ms,
            sa.func.count().over(partition_by=t.diagnosis_code).label("total"),
            sa.func.row_number().over(partition_by=t.diagnosis_code, order_by=order).label("number"),
        )
        .where(_is_problem(now), is_its, sa.func.coalesce(~is_held, sa.true()))
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


def _fact(row: Any) -> GroupFact:
    return GroupFact(
        cluster=row.cluster,
        technical_group=row.technical_group,
        name=row.name,
        text=row.text,
        since=None if row.since_ms is None else datetime.fromtimestamp(row.since_ms / 1000, UTC),
    )


def _shared(
    connection: Connection, now: datetime, tenants: Collection[str], held: Mapping[tuple[str, str], str]
) -> list[GroupSummary]:
    """Return shared groups with a problem, as far as members of these tenants see them."""
    wanted = GroupsWanted(tenants=tenants, by_lag=True, limit=_MOST_SHARED, only_shared=True, holding=held)
    since_ms = round(1000 * (now - LASTING).timestamp())
    rows = list_summaries(connection, wanted)
    active: dict[str, set[str | None]] = {}
    for each in list_active(connection, places=[_place(row.place) for row in rows if row.place]):
        active.setdefault("/".join(each.place), set()).add(each.cluster)
    return [
        each
        for each in rows
        if each.diagnosis.code in CODES
        and (each.member_count or each.place not in active or each.cluster in active[each.place])
        and (each.since_ms is None or each.since_ms <= since_ms)
        and (each.diagnosis.code != SLOWER or (each.time_lag_ms or each.time_lag_at_least_ms or 0) >= LATE_MS)
    ]


def _place(text: str) -> Place:
    tenant, instance, environment = text.split("/")
    return tenant, instance, environment


def _together(stored: Sequence[GroupsFact], shared: Sequence[GroupSummary]) -> list[GroupsFact]:
    counts = Counter({each.code: each.count for each in stored})
    counts.update(each.diagnosis.code for each in shared)
    worst: dict[str, list[GroupFact]] = {each.code: list(each.worst) for each in stored}
    for each in shared:
        fact = GroupFact(
            cluster=each.cluster,
            technical_group=each.technical_group,
            name=each.group or each.technical_group,
            text=each.diagnosis.text,
            since=None if each.since_ms is None else datetime.fromtimestamp(each.since_ms / 1000, UTC),
        )
        worst.setdefault(each.diagnosis.code, []).append(fact)
    return [GroupsFact(code=code, count=count, worst=worst[code][:FEW]) for code, count in counts.items()]
