"""Brings projections from their checkpoints to the log's head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog
from backend.projections.batched_rows import BatchedRows
from backend.projections.framework import Projection, checkpoints

PAGE_EVENTS = 1000
BATCH_EVENTS = 10  # threshold from which collecting changes costs less than writing each


def catch_up(connection: Connection, registry: EventRegistry, projections: Sequence[Projection]) -> None:
    """Apply the events that projections have not seen, in the caller's transaction.

    Takes the append lock: two runners at one time would both apply the same event.
    """
    head = PostgresEventLog(connection, registry).lock()
    project(connection, registry, projections, head.position, ())


def project(
    connection: Connection,
    registry: EventRegistry,
    projections: Sequence[Projection],
    head: int,
    news: Sequence[RecordedEvent],
) -> None:
    """Apply new events as `catch_up` does, for a caller that holds the append lock and passes head and events."""
    places = {name: place for name, place in positions(connection, projections).items() if place < head}
    behind = [projection for projection in projections if projection.name in places]
    if not behind:
        return
    after = min(places.values())
    known = news and news[0].position == after + 1
    for page in [news] if known else unseen(connection, registry, behind, after):
        batch = BatchedRows(connection) if len(page) >= BATCH_EVENTS else None
        for recorded in page:
            for projection in behind:
                if recorded.position > places[projection.name] and projection.wants(recorded.event):
                    projection.apply(batch or connection, recorded)
        if batch:
            batch.write()
    set_checkpoints(connection, behind, head)


def unseen(
    connection: Connection, registry: EventRegistry, behind: Sequence[Projection], after: int
) -> Iterator[Sequence[RecordedEvent]]:
    """Yield pages of the events after a position that any projection wants, up to the log's head."""
    log = PostgresEventLog(connection, registry)
    wanted = {cls.stored_name for projection in behind for cls in projection.events}
    page_is_full = True
    while page_is_full:
        page = log.feed(after, PAGE_EVENTS, names=wanted)
        yield page
        page_is_full = len(page) == PAGE_EVENTS
        after = page[-1].position if page else after


def positions(connection: Connection, projections: Sequence[Projection]) -> Mapping[str, int]:
    """Return the position of each projection; the log's head minus this is its lag in events."""
    rows = connection.execute(sa.select(checkpoints.c.name, checkpoints.c.position)).all()
    known = {row.name: row.position for row in rows}
    return {projection.name: known.get(projection.name, 0) for projection in projections}


def set_checkpoints(connection: Connection, projections: Sequence[Projection], position: int) -> None:
    """Record that the projections' rows are those as of a position."""
    rows = [{"name": projection.name, "position": position} for projection in projections]
    statement = insert(checkpoints).values(rows)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[checkpoints.c.name], set_={"position": statement.excluded.position}
        )
    )
