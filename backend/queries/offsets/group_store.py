"""Storage of consumer groups as workers observe them on each cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, insert

from backend.domain.offsets.observed_group import GroupMember, GroupPartition
from backend.queries.offsets.group_tables import group_observations, observed_groups
from backend.queries.offsets.observed_groups import MANY, GroupRow

_AS_THEY_ARE = frozenset(each.name for each in fields(GroupRow)) - {"diagnosis", *MANY}
"""Fields of a row that are columns."""


def store_groups(
    connection: Connection,
    cluster: str,
    rows: Sequence[GroupRow],
    observed_at: datetime,
    *,
    unchanged: Collection[str] = (),
    reason: str | None = None,
    truncated: bool = False,
) -> None:
    """Store an observation of a cluster in place of the previous one.

    `unchanged` names groups whose stored rows are still true, by their technical names. All other groups of the
    cluster are deleted. `reason`: why a part of the cluster did not answer; `truncated`: it has more groups than
    were observed.
    """
    t = observed_groups.c
    kept = [*(row.technical_group for row in rows), *unchanged]
    names = sa.func.unnest(sa.literal(kept, ARRAY(sa.Text))).table_valued("name").render_derived("kept")
    is_kept = sa.exists().where(names.c.name == t.technical_group)
    connection.execute(sa.delete(observed_groups).where(t.cluster == cluster, sa.not_(is_kept)))
    store_rows(connection, rows)
    _store_observation(
        connection, cluster, observed_at=observed_at, groups=len(kept), reason=reason, truncated=truncated
    )


def store_rows(connection: Connection, rows: Sequence[GroupRow]) -> None:
    """Store some groups of an observation whose end `store_groups` stores, with these among the unchanged ones."""
    if not rows:
        return
    upsert = insert(observed_groups)
    values = {column.name: upsert.excluded[column.name] for column in observed_groups.c if not column.primary_key}
    upsert = upsert.on_conflict_do_update(index_elements=["cluster", "technical_group"], set_=values)
    # One order for all writers: two of them would otherwise wait for each other's rows.
    connection.execute(upsert, [_values(row) for row in sorted(rows, key=lambda row: row.key)])


@dataclass(frozen=True, kw_only=True)
class StoredGroup:
    """Parts of a stored group from which the next process continues its observation."""

    technical_group: str
    state: str
    state_since_ms: int | None
    code: str
    since_ms: int | None
    partitions: Sequence[GroupPartition]
    observed_at: datetime


def stored_groups(connection: Connection, cluster: str) -> Iterator[StoredGroup]:
    """Yield the stored groups of a cluster."""
    t = observed_groups.c
    query = sa.select(
        t.technical_group,
        t.state,
        t.state_since_ms,
        t.diagnosis_code,
        t.since_ms,
        t.partitions,
        t.observed_at,
    )
    for row in connection.execute(query.where(t.cluster == cluster).execution_options(yield_per=500)):
        yield StoredGroup(
            technical_group=row.technical_group,
            state=row.state,
            state_since_ms=row.state_since_ms,
            code=row.diagnosis_code,
            since_ms=row.since_ms,
            partitions=[GroupPartition(**each) for each in row.partitions],
            observed_at=row.observed_at,
        )


def touch_groups(connection: Connection, cluster: str, names: Collection[str], observed_at: datetime) -> None:
    """Store that groups were observed again and nothing of them had changed."""
    t = observed_groups.c
    these = t.technical_group == sa.any_(sa.literal(list(names), ARRAY(sa.Text)))
    query = sa.update(observed_groups).where(t.cluster == cluster, these)
    connection.execute(query.values(observed_at=observed_at))


def database_time(connection: Connection) -> datetime:
    """Return the time of the database's clock, so that ages agree whichever process reads them."""
    now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    return now


def store_failure(connection: Connection, cluster: str, reason: str) -> None:
    """Store why an observation failed; the groups of the last one stay and age."""
    _store_observation(connection, cluster, reason=reason)


def delete_except(connection: Connection, clusters: Collection[str]) -> None:
    """Delete the groups of all other clusters."""
    for table in (observed_groups, group_observations):
        connection.execute(sa.delete(table).where(table.c.cluster.not_in(list(clusters))))


def _store_observation(connection: Connection, cluster: str, **values: Any) -> None:
    row = insert(group_observations).values(cluster=cluster, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["cluster"], set_=values))


def _values(row: GroupRow) -> dict[str, Any]:
    is_whole = row.place is not None and all(each.stream is not None for each in row.partitions)
    return {
        **_stored_of(row),
        "diagnosis_code": row.diagnosis.code,
        "diagnosis_text": row.diagnosis.text,
        "streams": sorted({each.stream for each in row.partitions if each.stream is not None}),
        "is_shared": len(row.tenants) > 1 or not is_whole,
        "members": [_filled(each) for each in row.members],
        "partitions": [_filled(each) for each in row.partitions],
    }


def _stored_of(row: GroupRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _AS_THEY_ARE}


def _filled(part: GroupMember | GroupPartition) -> dict[str, Any]:
    # `asdict` copies deeply, which took half of an observation's time.
    return {name: value for name, value in vars(part).items() if value is not None}
