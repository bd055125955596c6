"""Reading what groups have committed, and where they go on on the other clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.queries.offset_tables import applied_offsets, group_commits, groups_not_followed

PENDING = "pending"
_ON_ITS_WAY = "the newest commit is on its way; this is what was done for an earlier one"

Place = tuple[str, str, int, str]
"""(cluster, stream, partition, group)."""


@dataclass(frozen=True, kw_only=True)
class ElsewhereRow:
    """What was done on another cluster; from `offset` on None if nothing was set there yet.

    `committed_at_ms` is that of the commit for which it was done: an older one while the newest is on its way.
    """

    cluster: str
    technical_group: str
    state: str
    reason: str | None
    committed_at_ms: int
    offset: int | None
    mode: str | None
    re_read_bound: int | None
    settled: bool | None
    applied_at_ms: int | None


@dataclass(frozen=True, kw_only=True)
class OffsetRow:
    """What a group committed on a cluster by itself, for one partition of a stream."""

    cluster: str
    stream: str
    partition: int
    group: str
    technical_group: str
    committed_offset: int
    committed_at_ms: int
    timestamp_ms: int | None
    """Of the last record before the offset."""
    safe_timestamp_ms: int | None
    """The smallest of the records at or behind it."""
    vector: Mapping[str, Sequence[int]] | None
    published_at_ms: int
    elsewhere: Sequence[ElsewhereRow]

    @property
    def place(self) -> Place:
        """Its key; offsets are listed in this order."""
        return self.cluster, self.stream, self.partition, self.group


@dataclass(frozen=True, kw_only=True)
class NotFollowedRow:
    """A group whose offsets for a topic are not distributed."""

    cluster: str
    technical_group: str
    topic: str
    reason: str


def list_offsets(
    connection: Connection,
    *,
    cluster: str | None = None,
    group: str | None = None,
    stream: str | None = None,
    tenants: Collection[str] | None = None,
    after: Place | None = None,
    limit: int,
) -> list[OffsetRow]:
    """At most so many rows behind `after`. `cluster`: where it was committed; `group`: logical or technical.

    `tenants`: only of their streams.
    """
    t = group_commits.c
    key = (t.cluster, t.stream, t.partition, t.group)
    shown = [t[each.name] for each in fields(OffsetRow) if each.name in t]
    query = sa.select(*shown).where(sa.not_(t.is_ended)).order_by(*key).limit(limit)
    if cluster is not None:
        query = query.where(t.cluster == cluster)
    if group is not None:
        query = query.where(sa.or_(t.group == group, t.technical_group == group))
    if stream is not None:
        query = query.where(t.stream == stream)
    if tenants is not None:
        query = query.where(sa.func.split_part(t.stream, "/", 1).in_(tenants))
    if after is not None:
        query = query.where(sa.tuple_(*key) > sa.tuple_(*(sa.literal(part) for part in after)))
    rows = connection.execute(query).all()
    made = {(row.cluster, row.stream, row.partition, row.group): row for row in rows}
    elsewhere = _elsewhere(connection, {place: row.committed_at_ms for place, row in made.items()})
    return [OffsetRow(**row._mapping, elsewhere=elsewhere.get(place, ())) for place, row in made.items()]


def _elsewhere(connection: Connection, made: Mapping[Place, int]) -> dict[Place, list[ElsewhereRow]]:
    """`made`: when each was committed."""
    if not made:
        return {}
    t = applied_offsets.c
    # Four arrays, however many places: a parameter for each part would soon be more than there may be.
    columns = zip(*made, strict=True)
    types = (sa.Text, sa.Text, sa.Integer, sa.Text)
    arrays: list[Any] = [sa.cast(list(each), ARRAY(kind)) for each, kind in zip(columns, types, strict=True)]
    names = ("origin_cluster", "stream", "partition", "group")
    wanted = sa.func.unnest(*arrays).table_valued(*names, name="wanted").render_derived()
    same = sa.and_(*(t[name] == wanted.c[name] for name in names))
    query = sa.select(applied_offsets).join(wanted, same).order_by(t.cluster)
    found: dict[Place, list[ElsewhereRow]] = {}
    for row in connection.execute(query):
        place = (row.origin_cluster, row.stream, row.partition, row.group)
        is_newest = row.committed_at_ms >= made[place]
        found.setdefault(place, []).append(
            ElsewhereRow(
                cluster=row.cluster,
                technical_group=row.technical_group,
                state=row.state if is_newest else PENDING,
                reason=row.reason if is_newest else _ON_ITS_WAY,
                committed_at_ms=row.committed_at_ms,
                offset=row.offset,
                mode=row.mode,
                re_read_bound=row.re_read_bound,
                settled=row.settled,
                applied_at_ms=row.applied_at_ms,
            )
        )
    return found


def list_not_followed(connection: Connection, most: int | None = None) -> list[NotFollowedRow]:
    """Groups whose offsets are not distributed, by cluster, group and topic."""
    query = sa.select(groups_not_followed).order_by(*groups_not_followed.primary_key.columns).limit(most)
    return [
        NotFollowedRow(
            cluster=row.cluster, technical_group=row.technical_group, topic=row.topic, reason=row.reason
        )
        for row in connection.execute(query)
    ]
