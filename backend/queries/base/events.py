"""Read access to the event log: listing, checking the chain, the head to export.

Used by GET /api/v1/events, /api/v1/events/head and /api/v1/events/verification.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.eventlog.recorded import Head, StoredEvent
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog, stored_of
from backend.eventlog.tables import BUT_ROUTE_EPOCHS, actor_of, events
from backend.eventlog.verification import Verification

_NO_EVENTS_TO_DECODE = EventRegistry()
_NEAR_EVENTS = 10_000
_CLOCKS_DIFFER = timedelta(minutes=2)
"""Events have the time of the process that appended them, positions the order in which they were appended."""
_LAST = 2**63 - 1
# Every process queries this about once a second: built once, with one parameter for any number of names.
_NEWEST_POSITION = (
    sa.select(events.c.position)
    .where(BUT_ROUTE_EPOCHS, events.c.name != sa.all_(sa.bindparam("but", type_=ARRAY(sa.Text))))
    .order_by(events.c.position.desc())
    .limit(1)
)


def list_events(
    connection: Connection,
    *,
    after: int = 0,
    limit: int = 100,
    stream_prefix: str | None = None,
    name: str = "",
    actor: str = "",
    since: datetime | None = None,
    tenants: Collection[str] | None = None,
) -> list[StoredEvent]:
    """Return up to `limit` stored events after a position; `vars(item)` has the contract's fields.

    `tenants`: only events of these and of their applications; `stream_prefix`: only streams with this prefix;
    `name`, `actor` and `since`: only events of this name and actor, and none before this time. Events are not
    decoded, so an older program lists a newer one's events too.
    """
    if name or actor or since is not None:
        query = sa.select(events).where(events.c.position > after)
        query = query.where(*is_since(since)) if since is not None else query
        query = query.where(events.c.name == name) if name else query
        query = query.where(actor_of == actor) if actor else query
        query = query.where(_begins(stream_prefix)) if stream_prefix else query
        query = query.where(of_tenants(tenants)) if tenants is not None else query
        return [stored_of(row) for row in connection.execute(query.order_by(events.c.position).limit(limit))]
    log = PostgresEventLog(connection, _NO_EVENTS_TO_DECODE)
    if tenants is None:
        return log.stored(after, limit, stream_prefix)
    streams, below = streams_of(tenants)
    return log.stored(after, limit, stream_prefix, streams=streams, below=below)


def head(connection: Connection) -> Head:
    """Return the newest event's position and hash, for `treeline events export-head`."""
    return PostgresEventLog(connection, _NO_EVENTS_TO_DECODE).head()


def newest_position(connection: Connection, *, but: Collection[str]) -> int:
    """Return the position of the newest event with none of these names, route epochs aside; 0 if none."""
    return connection.execute(_NEWEST_POSITION, {"but": list(but)}).scalar_one_or_none() or 0


def newest_events(connection: Connection, position: int, most: int) -> list[StoredEvent]:
    """Return the newest stored events up to a position, newest first, without the frequent route epochs."""
    query = sa.select(events).where(BUT_ROUTE_EPOCHS, events.c.position <= position)
    return [stored_of(row) for row in connection.execute(query.order_by(events.c.position.desc()).limit(most))]


def events_before(
    connection: Connection,
    before: int,
    most: int,
    *,
    stream: str = "",
    stream_prefix: str = "",
    name: str = "",
    actor: str = "",
    since: datetime | None = None,
    tenants: Collection[str] | None = None,
) -> list[StoredEvent]:
    """Return the newest events below a position, newest first, with the given filters.

    Route epochs are included only with another filter than a time. `since` and `tenants` are those of
    `list_events`.
    """
    query = sa.select(events).where(events.c.position < before)
    order = events.c.position.desc()
    if stream:
        # Within a stream, versions are in the order of positions, and have an index.
        query, order = query.where(events.c.stream == stream), events.c.version.desc()
    elif stream_prefix:
        query = query.where(_begins(stream_prefix))
    elif not (name or actor):
        query = query.where(BUT_ROUTE_EPOCHS)
    if name:
        query = query.where(events.c.name == name)
    if actor:
        query = query.where(actor_of == actor)
    if since is not None:
        query = query.where(*is_since(since))
    if tenants is not None:
        query = query.where(of_tenants(tenants))
    return [stored_of(row) for row in connection.execute(query.order_by(order).limit(most))]


def is_since(moment: datetime) -> tuple[ColumnElement[bool], ...]:
    """Return conditions on events that were not appended before a moment."""
    return events.c.position >= first_position(moment), events.c.time >= moment


def first_position(since: datetime) -> ColumnElement[int]:
    """Return the position from which events may be as late as a moment, found by the index on times."""
    near = events.alias("near").c
    first = sa.select(near.position).where(near.time >= since - _CLOCKS_DIFFER).order_by(near.time).limit(1)
    return sa.func.coalesce(first.scalar_subquery(), _LAST)


def last_position(until: datetime) -> ColumnElement[int]:
    """Return the position up to which events may be as early as a moment, found by the index on times."""
    near = events.alias("near").c
    last = sa.select(near.position).where(near.time <= until + _CLOCKS_DIFFER).order_by(near.time.desc()).limit(1)
    return sa.func.coalesce(last.scalar_subquery(), 0)


def event_at(connection: Connection, position: int, tenants: Collection[str] | None = None) -> StoredEvent | None:
    """Return the event at a position; None if there is none, or it is not of these tenants."""
    query = sa.select(events).where(events.c.position == position)
    if tenants is not None:
        query = query.where(of_tenants(tenants))
    row = connection.execute(query).one_or_none()
    return None if row is None else stored_of(row)


def events_at(connection: Connection, positions: Collection[int]) -> list[StoredEvent]:
    """Return the events at these positions, in order."""
    query = sa.select(events).where(events.c.position.in_(positions)).order_by(events.c.position)
    return [stored_of(row) for row in connection.execute(query)]


def newest_up_to(connection: Connection, position: int, tenants: Collection[str]) -> int:
    """Return the position of these tenants' newest event up to a position; 0 if there is none."""
    # First all of theirs, by the index on streams: the newest of all events may be a million later.
    query = sa.select(events.c.position).where(of_tenants(tenants), events.c.position <= position)
    theirs = query.cte("theirs").prefix_with("MATERIALIZED", dialect="postgresql")
    return connection.execute(sa.select(sa.func.max(theirs.c.position))).scalar_one() or 0


def of_same_request(connection: Connection, event: StoredEvent, most: int) -> list[StoredEvent]:
    """Return other events of the same request, if near in the log, in order."""
    near = sa.between(events.c.position, event.position - _NEAR_EVENTS, event.position + _NEAR_EVENTS)
    same = events.c.metadata["request_id"].as_string() == event.metadata.request_id
    query = sa.select(events).where(near, same, events.c.position != event.position)
    return [stored_of(row) for row in connection.execute(query.order_by(events.c.position).limit(most))]


def _begins(stream: str) -> ColumnElement[bool]:
    return events.c.stream.startswith(stream, autoescape=True)


def of_tenants(tenants: Collection[str]) -> ColumnElement[bool]:
    """Return the WHERE clause for the events that members of these tenants may read."""
    streams, below = streams_of(tenants)
    return sa.or_(events.c.stream.in_(streams), *map(_begins, below))


def streams_of(tenants: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the event streams of tenants, and the prefixes of their applications' streams."""
    named = sorted(tenants)
    own = [f"{kind}-{tenant}" for tenant in named for kind in ("tenant", "messages")]
    return own, [f"application-{tenant}/" for tenant in named]


def happened_since(connection: Connection, event: StoredEvent, names: Collection[str], **data: Any) -> int | None:
    """Return the position of the first later event with one of these names and these data on the same stream."""
    query = sa.select(events.c.position).where(
        events.c.stream == event.stream, events.c.version > event.version, events.c.name.in_(names)
    )
    for name, value in data.items():
        query = query.where(events.c.data[name].as_string() == str(value))
    return connection.execute(query.order_by(events.c.version).limit(1)).scalar_one_or_none()


def newest_of(connection: Connection, stream: str, name: str, at: int | None = None) -> StoredEvent | None:
    """Return the newest stored event of this name on a stream, up to a position if one is given."""
    query = sa.select(events).where(events.c.stream == stream, events.c.name == name)
    if at is not None:
        query = query.where(events.c.position <= at)
    row = connection.execute(query.order_by(events.c.version.desc()).limit(1)).one_or_none()
    return None if row is None else stored_of(row)


def times_of(connection: Connection, positions: Collection[int]) -> dict[int, datetime]:
    """Return the times when the events at these positions were appended."""
    query = sa.select(events.c.position, events.c.time).where(events.c.position.in_(positions))
    return {row.position: row.time for row in connection.execute(query)}


def verification(connection: Connection, expected_head: Head | None = None) -> Verification:
    """Verify the whole chain, and that it continues `expected_head` if one is given."""
    return PostgresEventLog(connection, _NO_EVENTS_TO_DECODE).verify(expected_head)
