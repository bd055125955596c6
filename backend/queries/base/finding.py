"""Search for resources by name: every search word is a part of the name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from backend.projections.applications import applications
from backend.projections.clusters import clusters
from backend.projections.streams import streams
from backend.projections.temporal import as_of
from backend.projections.tenants import environments, instances, tenants
from backend.projections.users import users
from backend.projections.webhooks import webhooks
from backend.queries.base.names_of_events import placements_numbered, switches_numbered


@dataclass(frozen=True)
class Found:
    """A search result: its kind, and its name with the names of the resources that contain it."""

    kind: str
    name: str
    """Name of the resource; switches and placements have their ids here."""


@dataclass(frozen=True)
class _Kind:
    name: str
    table: Table
    parts: Sequence[str]
    """Columns that make the name."""


_OF_TENANTS = (
    _Kind("tenant", tenants, ("name",)),
    _Kind("instance", instances, ("tenant", "name")),
    _Kind("environment", environments, ("tenant", "instance", "name")),
    _Kind("stream", streams, ("tenant", "instance", "environment", "stream")),
    _Kind("application", applications, ("tenant", "instance", "environment", "application")),
)
_OF_ESTATE = (
    _Kind("cluster", clusters, ("name",)),
    _Kind("user", users, ("name",)),
    _Kind("webhook", webhooks, ("name",)),
)


def find(
    connection: Connection,
    words: Sequence[str],
    most: int,
    *,
    estate: bool,
    tenants_seen: Collection[str] | None,
    kinds: Collection[str] | None = None,
) -> list[Found]:
    """Return the first matches of each kind: prefix matches of the first word before others, short names first.

    `estate`: include resources that belong to no tenant; `tenants_seen`: only these tenants; None for all.
    `kinds`: only these kinds. Without words all names match.
    """
    found: list[Found] = _numbered(connection, words, most, kinds) if estate else []
    for kind in (*(_OF_ESTATE if estate else ()), *_OF_TENANTS):
        if kinds is not None and kind.name not in kinds:
            continue
        name = _name(kind)
        query = sa.select(name.label("name")).where(as_of(kind.table, None), has_words(name, words))
        if "deleted" in kind.table.c:  # the row is kept until all clusters are clean
            query = query.where(~kind.table.c.deleted)
        if kind in _OF_TENANTS and tenants_seen is not None:
            query = query.where(kind.table.c[kind.parts[0]].in_(tenants_seen))
        begins = begins_with(words, kind.table.c[kind.parts[-1]], name)
        query = query.order_by(sa.not_(begins), sa.func.length(name), name).limit(most)
        found += [Found(kind.name, row.name) for row in connection.execute(query)]
    return found


def _numbered(
    connection: Connection, words: Sequence[str], most: int, kinds: Collection[str] | None
) -> list[Found]:
    """Return switches and placements by number, clusters and id: the one of that number first, then the newest."""
    found: list[Found] = []
    for kind, rows in (("switch", switches_numbered()), ("placement", placements_numbered())):
        if kinds is not None and kind not in kinds:
            continue
        number = sa.cast(rows.c.number, sa.Text)
        others = [column for column in rows.c if column is not rows.c.number]
        query = sa.select(rows.c.id).where(has_words(sa.func.concat_ws(" ", kind, number, *others), words))
        query = query.order_by(number.not_in(words), rows.c.number.desc()).limit(most)
        found += [Found(kind, row.id) for row in connection.execute(query)]
    return found


def has_words(name: ColumnElement[str], words: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that each word is a part of the name."""
    return sa.and_(sa.true(), *(name.icontains(word, autoescape=True) for word in words))


def begins_with(words: Sequence[str], *names: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that one of the names begins with the first word; such matches come first."""
    first = words[0] if words else ""
    return sa.or_(sa.false(), *(name.istartswith(first, autoescape=True) for name in names))


def _name(kind: _Kind) -> ColumnElement[str]:
    first, *others = (kind.table.c[part] for part in kind.parts)
    whole: ColumnElement[str] = first
    for each in others:
        whole = whole.op("||")("/").op("||")(each)
    return whole
