"""Events of the last day, counted by kind, with the newest of each: cheap among a million events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY

from backend.eventlog.recorded import StoredEvent
from backend.eventlog.store import stored_of
from backend.eventlog.tables import events
from backend.queries.base.events import first_position, is_since, streams_of

MOST_COUNTED = 1_000
"""Events of one kind that are counted; more are as many."""
_MOST_OF_TENANTS = 300
"""Newest events of each of a tenant's event streams among which those of the last day are counted."""


@dataclass(frozen=True, kw_only=True)
class RecentEvents:
    """Number of events of each kind, and the newest of each."""

    counts: Mapping[str, int]
    newest: Mapping[str, StoredEvent]
    since: datetime
    is_partial: bool = False
    """True if there may be more of each kind: only the newest events were looked at."""


def recent_events(connection: Connection, since: datetime, names: Collection[str]) -> RecentEvents:
    """Return the events with these names since a moment."""
    # Each name by its own index, from the position where the moment begins by the index on times.
    named = sa.func.unnest(sa.bindparam("names", sorted(names), ARRAY(sa.Text))).table_valued("name")
    named = named.render_derived("named")
    of_name = (
        sa.select(events.c.position)
        .where(events.c.name == named.c.name, *is_since(since))
        .order_by(events.c.position.desc())
        .limit(MOST_COUNTED)
        .lateral("of_name")
    )
    position = of_name.c.position
    query = sa.select(named.c.name, sa.func.count(), sa.func.max(position))
    rows = connection.execute(query.select_from(named.join(of_name, sa.true())).group_by(named.c.name)).all()
    newest = sa.select(events).where(events.c.position.in_([row[2] for row in rows]))
    return RecentEvents(
        counts={row[0]: row[1] for row in rows},
        newest={event.name: event for event in map(stored_of, connection.execute(newest))},
        since=since,
    )


def recent_events_of(
    connection: Connection, since: datetime, names: Collection[str], tenants: Collection[str]
) -> RecentEvents:
    """Return the same of the tenants' own events, as far as they are among the newest ones of their streams."""
    streams, below = streams_of(tenants)
    named = sa.func.unnest(sa.bindparam("streams", streams, ARRAY(sa.Text))).table_valued("stream")
    named = named.render_derived("named")
    # By versions, which have an index within each stream, and only then by time.
    newest_of_stream = sa.select(events).where(events.c.stream == named.c.stream)
    of_stream = newest_of_stream.order_by(events.c.version.desc()).limit(_MOST_OF_TENANTS).lateral("of_stream")
    own = sa.select(*of_stream.c).select_from(named.join(of_stream, sa.true()))
    begins = sa.or_(sa.false(), *(events.c.stream.startswith(each, autoescape=True) for each in below))
    last = events.c.position.desc()
    of_day = sa.select(events).where(begins, events.c.position >= first_position(since))
    applications = connection.execute(of_day.order_by(last).limit(_MOST_OF_TENANTS)).all()
    counts: Counter[str] = Counter()
    newest: dict[str, StoredEvent] = {}
    rows = connection.execute(own).all()
    of_streams = Counter(row.stream for row in rows if row.time >= since)
    is_partial = max(of_streams.values(), default=0) == _MOST_OF_TENANTS or len(applications) == _MOST_OF_TENANTS
    for event in map(stored_of, [*rows, *applications]):
        if event.name in names and event.time >= since:
            counts[event.name] += 1
            before = newest.setdefault(event.name, event)
            newest[event.name] = max(before, event, key=lambda each: each.position)
    return RecentEvents(counts=counts, newest=newest, since=since, is_partial=is_partial)
