"""Queries of groups' committed offsets and of the offsets set for them on the other clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row
from sqlalchemy.dialects.postgresql import ARRAY

from backend.queries.offsets.offset_tables import applied_offsets, group_commits, groups_not_followed

PENDING = "pending"
PLACE = ("origin_cluster", "stream", "partition", "group")
_ON_ITS_WAY = "the newest commit has not arrived yet; this offset belongs to an earlier commit"

Place = tuple[str, str, int, str]
"""(cluster, stream, partition, group)."""
_MOST_DIGITS = 9


def place_in_words(place: Place) -> str:
    """Write a place as CLUSTER/STREAM/PARTITION/GROUP. The group comes last, since only it may have slashes."""
    return "/".join(map(str, place))


def place_of(text: str) -> Place | None:
    """Parse a place in that form; None if the text is no place."""
    cluster, *stream, partition, group = text.split("/", 6) if text.count("/") >= 6 else ("", "", "")
    if not partition.isascii() or not partition.isdecimal() or len(partition) > _MOST_DIGITS:
        return None
    return cluster, "/".join(stream), int(partition), group


@dataclass(frozen=True, kw_only=True)
class ElsewhereRow:
    """Offset that was set on another cluster; the fields from `offset` on are None if none was set there yet.

    `committed_at_ms` is the time of the commit for which it was set, which is an older one while the newest is on
    its way.
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
    """A group's own commit on a cluster, for one partition of a stream."""

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
        """Return the row's key, which is also the list's order."""
        return self.cluster, self.stream, self.partition, self.group


@dataclass(frozen=True, kw_only=True)
class OffsetRow(CommitRow):
    """A commit with its timestamps and origin vector."""

    timestamp_ms: int | None
    """Timestamp of the last record before the offset."""
    safe_timestamp_ms: int | None
    """Smallest timestamp of the records at or after the offset."""
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
    """Filter and page of a list of commits. `cluster`: of the commit; `group`: logical or technical name."""

    cluster: str | None = None
    group: str | None = None
    stream: str | None = None
    tenants: Collection[str] | None = None
    """Tenants whose streams are listed; None: all."""
    after: Place | None = None
    limit: int

    def of(self, t: sa.FromClause, values: sa.FromClause) -> list[ColumnElement[bool]]:
        """Return the WHERE conditions on a table of commits, whose keys and values may be in two tables."""
        found: list[ColumnElement[bool]] = []
        if self.cluster is not None:
            found.append(t.c.cluster == self.cluster)
        if self.group is not None:
            found.append(sa.or_(t.c.group == self.group, values.c.technical_group == self.group))
        if self.stream is not None:
            found.append(t.c.stream == self.stream)
        if self.tenants is not None:
            found.append(sa.func.split_part(t.c.stream, "/", 1).in_(self.tenants))
        if self.after is not None:
            found.append(sa.tuple_(*key_of(t)) > sa.tuple_(*(sa.literal(part) for part in self.after)))
        return found


def list_offsets(connection: Connection, wanted: Wanted) -> list[OffsetRow]:
    """List the current commits that match, at most `wanted.limit`."""
    shown = [group_commits.c[each.name] for each in fields(OffsetRow) if each.name in group_commits.c]
    query = sa.select(*shown).where(sa.not_(group_commits.c.is_ended), *wanted.of(group_commits, group_commits))
    query = query.order_by(*key_of(group_commits)).limit(wanted.limit)
    return with_elsewhere(OffsetRow, connection.execute(query), lambda made: _applied(connection, made))


def with_elsewhere(
    kind: type[AnyRow],
    rows: Iterable[Row[Any]],
    find: Callable[[Collection[Place]], Iterable[Row[Any]]],
) -> list[AnyRow]:
    """Build rows of commits, each with the offsets set on other clusters."""
    made: dict[Place, Row[Any]] = {(row.cluster, row.stream, row.partition, row.group): row for row in rows}
    elsewhere: dict[Place, list[ElsewhereRow]] = {}
    for row in find(made) if made else ():
        place = (row.origin_cluster, row.stream, row.partition, row.group)
        is_newest = row.committed_at_ms >= made[place].committed_at_ms
        elsewhere.setdefault(place, []).append(
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
    return [kind(**row._mapping, elsewhere=elsewhere.get(place, ())) for place, row in made.items()]


def key_of(t: sa.FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the columns by which a table of commits is ordered."""
    return t.c.cluster, t.c.stream, t.c.partition, t.c.group


def these_places(made: Collection[Place]) -> sa.TableValuedAlias:
    """Return the places as a table expression."""
    # Four arrays, however many places: one parameter for each part would soon exceed PostgreSQL's limit.
    columns = zip(*made, strict=True)
    types = (sa.Text, sa.Text, sa.Integer, sa.Text)
    arrays: list[Any] = [sa.cast(list(each), ARRAY(kind)) for each, kind in zip(columns, types, strict=True)]
    return sa.func.unnest(*arrays).table_valued(*PLACE, name="these").render_derived()


def _applied(connection: Connection, made: Collection[Place]) -> Iterable[Row[Any]]:
    t, these = applied_offsets.c, these_places(made)
    same = sa.and_(*(t[name] == these.c[name] for name in PLACE))
    return connection.execute(sa.select(applied_offsets).join(these, same).order_by(t.cluster))


def streams_of_group(connection: Connection, group: str) -> list[str]:
    """Return the streams in which a group, named logically or technically, has committed by itself."""
    t = group_commits.c
    query = sa.select(t.stream).distinct().where(sa.or_(t.group == group, t.technical_group == group))
    return list(connection.execute(query.order_by(t.stream)).scalars())


def list_not_followed(connection: Connection, most: int | None = None) -> list[NotFollowedRow]:
    """List groups whose offsets are not distributed, by cluster, group and topic."""
    query = sa.select(groups_not_followed).order_by(*groups_not_followed.primary_key.columns).limit(most)
    return [
        NotFollowedRow(
            cluster=row.cluster, technical_group=row.technical_group, topic=row.topic, reason=row.reason
        )
        for row in connection.execute(query)
    ]
