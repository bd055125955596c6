"""Search for consumer groups by logical or technical name: those observed, then those that only committed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import distinct_on

from backend.queries.base.finding import begins_with, has_words
from backend.queries.offsets.group_tables import observed_groups
from backend.queries.offsets.group_views import is_seen
from backend.queries.offsets.offset_tables import group_commits


@dataclass(frozen=True, kw_only=True)
class FoundGroup:
    """A consumer group. The same logical group is found once, on the cluster where it has most members."""

    name: str
    """Logical name; the technical one if it does not match the cluster's group format."""
    place: str | None
    """`tenant/instance/environment` of the group; None like the logical name, or if it is not observed."""
    cluster: str | None
    """None: the group is not observed, but it has committed offsets."""
    technical_group: str
    streams: Sequence[str] = ()
    """Streams for which it has offsets, as far as the caller may see them."""


def find_groups(
    connection: Connection,
    words: Sequence[str],
    most: int,
    tenants_seen: Collection[str] | None,
    *,
    reads_own: bool = False,
) -> list[FoundGroup]:
    """Return groups by words of environment, logical and technical name; short names first.

    `tenants_seen`: only groups of which members of these tenants see a part; None for all.
    `reads_own`: only groups with offsets for a stream of their own environment.
    """
    found = _observed(connection, words, most, tenants_seen, reads_own)
    if words and not reads_own and len(found) < most:
        known = {each.name for each in found}
        committed = _committed(connection, words, most, tenants_seen)
        found += [each for each in committed if each.name not in known]
    return found[:most]


def _observed(
    connection: Connection,
    words: Sequence[str],
    most: int,
    tenants_seen: Collection[str] | None,
    reads_own: bool,
) -> list[FoundGroup]:
    t = observed_groups.c
    name = sa.func.coalesce(t.group, t.technical_group)
    # Without a place, equal names on two clusters are two groups.
    where = sa.func.coalesce(t.place, sa.func.concat(" ", t.cluster))
    each = sa.select(name.label("name"), t.place, t.cluster, t.technical_group, t.streams)
    each = each.where(has_words(sa.func.concat_ws("/", t.place, name, t.technical_group), words))
    if tenants_seen is not None:
        each = each.where(is_seen(tenants_seen))
    if reads_own:
        each = each.where(_reads_own(tenants_seen))
    once = each.ext(distinct_on(name, where)).order_by(name, where, t.member_count.desc(), t.cluster).subquery()
    query = sa.select(once).order_by(*_order(once.c.name, words), once.c.place, once.c.cluster).limit(most)
    return [
        FoundGroup(
            name=row.name,
            place=row.place,
            cluster=row.cluster,
            technical_group=row.technical_group,
            streams=[
                stream
                for stream in row.streams
                if tenants_seen is None or stream.partition("/")[0] in tenants_seen
            ],
        )
        for row in connection.execute(query)
    ]


def _reads_own(tenants_seen: Collection[str] | None) -> ColumnElement[bool]:
    """Return the condition that a group has offsets for a stream of its environment, which these tenants see."""
    t = observed_groups.c
    stream = sa.func.unnest(t.streams).column_valued("stream")
    own = sa.select(stream).where(sa.func.starts_with(stream, t.place + "/")).exists()
    return own if tenants_seen is None else sa.and_(own, sa.func.split_part(t.place, "/", 1).in_(tenants_seen))


def _committed(
    connection: Connection, words: Sequence[str], most: int, tenants_seen: Collection[str] | None
) -> list[FoundGroup]:
    t = group_commits.c
    query = sa.select(t.group, sa.func.min(t.technical_group).label("technical_group"))
    query = query.where(~t.is_ended, has_words(sa.func.concat_ws(" ", t.group, t.technical_group), words))
    if tenants_seen is not None:
        query = query.where(sa.func.split_part(t.stream, "/", 1).in_(tenants_seen))
    query = query.group_by(t.group).order_by(*_order(t.group, words)).limit(most)
    return [
        FoundGroup(name=row.group, place=None, cluster=None, technical_group=row.technical_group)
        for row in connection.execute(query)
    ]


def _order(name: ColumnElement[str], words: Sequence[str]) -> list[ColumnElement[Any]]:
    return [sa.not_(begins_with(words, name)), sa.func.length(name), name]
