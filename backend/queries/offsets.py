"""Reading what groups have committed, and where they go on on the other clusters: now, or as a look saw it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table
from sqlalchemy.dialects.postgresql import ARRAY

from backend.queries.offset_tables import applied_offsets, group_commits, groups_not_followed
from backend.queries.past import Look, holds
from backend.queries.past_tables import past_applied, past_commits, past_not_followed

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
class CommitRow:
    """What a group committed on a cluster by itself, for one partition of a stream."""

    cluster: str
    stream: str
    partition: int
    group: str
    technical_group: str
    committed_offset: int
    committed_at_ms: int
    elsewhere: Sequence[ElsewhereRow]

    @property
    def place(self) -> Place:
        """Its key; offsets are listed in this order."""
        return self.cluster, self.stream, self.partition, self.group


@dataclass(frozen=True, kw_only=True)
class OffsetRow(CommitRow):
    """The same with what stands there."""

    timestamp_ms: int | None
    """Of the last record before the offset."""
    safe_timestamp_ms: int | None
    """The smallest of the records at or behind it."""
    vector: Mapping[str, Sequence[int]] | None
    published_at_ms: int


AnyRow = TypeVar("AnyRow", bound=CommitRow)


@dataclass(frozen=True, kw_only=True)
class NotFollowedRow:
    """A group whose offsets for a topic are not distributed."""

    cluster: str
    technical_group: str
    topic: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which rows. `cluster`: where it was committed; `group`: logical or technical."""

    cluster: str | None = None
    group: str | None = None
    stream: str | None = None
    tenants: Collection[str] | None = None
    """Only of their streams."""
    after: Place | None = None
    limit: int

    def of(self, t: sa.FromClause) -> list[ColumnElement[bool]]:
        """As a WHERE clause on a table of commits."""
        found: list[ColumnElement[bool]] = []
        if self.cluster is not None:
            found.append(t.c.cluster == self.cluster)
        if self.group is not None:
            found.append(sa.or_(t.c.group == self.group, t.c.technical_group == self.group))
        if self.stream is not None:
            found.append(t.c.stream == self.stream)
        if self.tenants is not None:
            found.append(sa.func.split_part(t.c.stream, "/", 1).in_(self.tenants))
        if self.after is not None:
            found.append(sa.tuple_(*_key(t)) > sa.tuple_(*(sa.literal(part) for part in self.after)))
        return found


def list_offsets(connection: Connection, wanted: Wanted) -> list[OffsetRow]:
    """At most so many rows behind a place, as they are now."""
    is_now = sa.not_(group_commits.c.is_ended)
    return _listed(connection, wanted, OffsetRow, (group_commits, is_now), (applied_offsets, sa.true()))


def list_commits(connection: Connection, wanted: Wanted, look: Look) -> list[CommitRow]:
    """The same as a look saw it."""
    commits, applied = ((table, holds(table, look)) for table in (past_commits, past_applied))
    return _listed(connection, wanted, CommitRow, commits, applied)


_Source = tuple[Table, ColumnElement[bool]]
"""A table, and which of its rows count."""


def _listed(
    connection: Connection, wanted: Wanted, kind: type[AnyRow], commits: _Source, applied: _Source
) -> list[AnyRow]:
    t, counts = commits
    shown = [t.c[each.name] for each in fields(kind) if each.name in t.c]
    query = sa.select(*shown).where(counts, *wanted.of(t)).order_by(*_key(t)).limit(wanted.limit)
    made = {(row.cluster, row.stream, row.partition, row.group): row for row in connection.execute(query)}
    elsewhere = _elsewhere(connection, {place: row.committed_at_ms for place, row in made.items()}, applied)
    return [kind(**row._mapping, elsewhere=elsewhere.get(place, ())) for place, row in made.items()]


def _key(t: sa.FromClause) -> tuple[ColumnElement[Any], ...]:
    return t.c.cluster, t.c.stream, t.c.partition, t.c.group


def _elsewhere(
    connection: Connection, made: Mapping[Place, int], applied: _Source
) -> dict[Place, list[ElsewhereRow]]:
    """`made`: when each was committed."""
    if not made:
        return {}
    table, counts = applied
    t = table.c
    # Four arrays, however many places: a parameter for each part would soon be more than there may be.
    columns = zip(*made, strict=True)
    types = (sa.Text, sa.Text, sa.Integer, sa.Text)
    arrays: list[Any] = [sa.cast(list(each), ARRAY(kind)) for each, kind in zip(columns, types, strict=True)]
    names = ("origin_cluster", "stream", "partition", "group")
    wanted = sa.func.unnest(*arrays).table_valued(*names, name="wanted").render_derived()
    same = sa.and_(*(t[name] == wanted.c[name] for name in names))
    query = sa.select(table).join(wanted, same).where(counts).order_by(t.cluster)
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


def list_not_followed(
    connection: Connection, most: int | None = None, look: Look | None = None
) -> list[NotFollowedRow]:
    """Groups whose offsets are not distributed, by cluster, group and topic: now, or as a look saw it."""
    t = groups_not_followed if look is None else past_not_followed
    counts = sa.true() if look is None else holds(past_not_followed, look)
    shown = [t.c[each.name] for each in fields(NotFollowedRow)]
    order = (t.c.cluster, t.c.technical_group, t.c.topic)
    rows = connection.execute(sa.select(*shown).where(counts).order_by(*order).limit(most))
    return [NotFollowedRow(**row._mapping) for row in rows]
