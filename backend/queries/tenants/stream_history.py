"""Events about one stream, newest first, without a scan of the log.

Projections keep a row for each state of a stream, of its topics, of grants on it, and of its lost records, with
the position of the event that made it. Events that leave no such row (produced messages, offsets that were
reset, drift that was set back) are looked for among the newest events of their event streams only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.names.names import StreamName
from backend.eventlog.recorded import StoredEvent
from backend.eventlog.store import stored_of
from backend.eventlog.tables import events
from backend.projections.applications import grants
from backend.projections.edge_losses import losses, set_aside
from backend.projections.streams import STREAM, stream_topics, streams
from backend.projections.temporal import POSITIONS
from backend.queries.base.events import of_tenants

MOST_LOOKED_AT = 2_000
"""Newest events of an event stream that are searched for events without a row."""
_MOST_POSITIONS = 2_000
"""Newest positions of a stream from which a page is taken; events that the viewer may not read are left out."""


def stream_events(
    connection: Connection,
    name: StreamName,
    most: int,
    *,
    before: int | None = None,
    at: int | None = None,
    clusters: Sequence[str] = (),
    tenants: Collection[str] | None = None,
) -> list[StoredEvent]:
    """Return at most `most` events about a stream, newest first.

    `before`: only those below a position; `at`: only those up to a position; `clusters`: where to look for resets
    of groups' offsets; `tenants`: only events that members of these tenants may read; None: all.
    """
    rows_of = [each for table in (streams, stream_topics) for each in _by_rows(table, name)]
    of_edges = _losses(name) if tenants is None else []
    found = sa.union(*rows_of, _by_grants(name), *of_edges, *_loose(name, clusters)).subquery()
    newest = sa.select(found.c.position).order_by(found.c.position.desc()).limit(_MOST_POSITIONS)
    if before is not None:
        newest = newest.where(found.c.position < before)
    if at is not None:
        newest = newest.where(found.c.position <= at)
    # Two statements: with one, PostgreSQL may walk the log backwards and look for each of its positions here.
    positions = list(connection.execute(newest).scalars())
    query = sa.select(events).where(events.c.position == sa.any_(sa.literal(positions, ARRAY(sa.BigInteger))))
    if tenants is not None:
        query = query.where(of_tenants(tenants))
    rows = connection.execute(query.order_by(events.c.position.desc()).limit(most))
    return [stored_of(row) for row in rows]


def _by_rows(table: Table, name: StreamName) -> list[sa.Select[int]]:
    """Return the positions at which rows of the stream began, and those at which they ended."""
    parts = (name.tenant, name.instance, name.environment, name.stream)
    key = [table.c[part] == value for part, value in zip(STREAM, parts, strict=True)]
    return [sa.select(table.c[bound].label("position")).where(*key) for bound in POSITIONS]


def _by_grants(name: StreamName) -> sa.Select[int]:
    is_its = sa.and_(grants.c.owner == name.tenant, grants.c.stream == str(name))
    return sa.select(grants.c.valid_from.label("position")).where(is_its)


def _losses(name: StreamName) -> list[sa.Select[int]]:
    """Return the positions of events about records of the stream that were lost or dead-lettered."""
    return [
        sa.select(table.c.valid_from.label("position")).where(table.c.stream == str(name))
        for table in (losses, set_aside)
    ]


def _loose(name: StreamName, clusters: Sequence[str]) -> list[sa.Select[int]]:
    """Return the positions of events that leave no row, among the newest of each event stream."""
    full = {"stream": str(name)}
    parts = {"instance": name.instance, "environment": name.environment, "stream": name.stream}
    looked_at = [(f"messages-{name.tenant}", full), (f"tenant-{name.tenant}", parts)]
    looked_at += [(f"offsets-{cluster}", full) for cluster in clusters]
    return [_newest_with(stream, wanted) for stream, wanted in looked_at]


def _newest_with(stream: str, wanted: Mapping[str, str]) -> sa.Select[int]:
    newest = (
        sa.select(events.c.position, events.c.data)
        .where(events.c.stream == stream)
        .order_by(events.c.version.desc())
        .limit(MOST_LOOKED_AT)
        .subquery()
    )
    is_its = [newest.c.data[field].as_string() == value for field, value in wanted.items()]
    return sa.select(newest.c.position).where(*is_its)
