"""Reading the event log from outside: listing, checking the chain, the head to export.

Behind GET /api/v1/events, /api/v1/events/head and /api/v1/events/verification.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.eventlog.recorded import Head, StoredEvent
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog, stored_of
from backend.eventlog.tables import BUT_ROUTE_EPOCHS, events
from backend.eventlog.verification import Verification

_NO_EVENTS_TO_DECODE = EventRegistry()


def list_events(
    connection: Connection,
    *,
    after: int = 0,
    limit: int = 100,
    stream_prefix: str | None = None,
    tenants: Collection[str] | None = None,
) -> list[StoredEvent]:
    """Up to `limit` events after a position, as they are stored; `vars(item)` has the contract's fields.

    `tenants`: only of these and of their applications, `stream_prefix`: only of streams whose name starts so.
    Not decoded: an older program lists a newer program's events too.
    """
    log = PostgresEventLog(connection, _NO_EVENTS_TO_DECODE)
    if tenants is None:
        return log.stored(after, limit, stream_prefix)
    streams = [f"tenant-{tenant}" for tenant in sorted(tenants)]
    below = [f"application-{tenant}/" for tenant in sorted(tenants)]
    return log.stored(after, limit, stream_prefix, streams=streams, below=below)


def head(connection: Connection) -> Head:
    """The newest event's position and hash, for `treeline events export-head`."""
    return PostgresEventLog(connection, _NO_EVENTS_TO_DECODE).head()


def newest_position(connection: Connection, *, but: Collection[str]) -> int:
    """Position of the newest event whose name is none of these, route epochs aside; 0 if there is none."""
    query = sa.select(events.c.position).where(BUT_ROUTE_EPOCHS, events.c.name.not_in(but))
    return connection.execute(query.order_by(events.c.position.desc()).limit(1)).scalar_one_or_none() or 0


def newest_events(connection: Connection, position: int, most: int) -> list[StoredEvent]:
    """The newest up to a position, the newest first, as they are stored; route epochs, which come every ten
    seconds, aside."""
    query = sa.select(events).where(BUT_ROUTE_EPOCHS, events.c.position <= position)
    return [stored_of(row) for row in connection.execute(query.order_by(events.c.position.desc()).limit(most))]


def newest_of(connection: Connection, stream: str, name: str) -> StoredEvent | None:
    """The newest event of this name on a stream, as it is stored."""
    query = sa.select(events).where(events.c.stream == stream, events.c.name == name)
    row = connection.execute(query.order_by(events.c.version.desc()).limit(1)).one_or_none()
    return None if row is None else stored_of(row)


def times_of(connection: Connection, positions: Collection[int]) -> dict[int, datetime]:
    """When the events at these positions were appended."""
    query = sa.select(events.c.position, events.c.time).where(events.c.position.in_(positions))
    return {row.position: row.time for row in connection.execute(query)}


def verification(connection: Connection, expected_head: Head | None = None) -> Verification:
    """Check the whole chain, and that it continues `expected_head` if one is given."""
    return PostgresEventLog(connection, _NO_EVENTS_TO_DECODE).verify(expected_head)
