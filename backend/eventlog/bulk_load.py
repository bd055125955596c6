"""Bulk loading of validly chained events by COPY: for benches, and to restore a log from its export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.eventlog.bulk import copy_rows
from backend.eventlog.recorded import Entry, Head, chain
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog, move_head, row_of
from backend.eventlog.tables import events

_COLUMNS = [column.name for column in events.columns]


def bulk_load(connection: Connection, registry: EventRegistry, entries: Iterable[Entry]) -> Head:
    """Append entries of any streams in order, in the caller's transaction; returns the new head.

    The same entries in the same order give the same hashes, so a restored log ends at the exported head.
    """
    head = PostgresEventLog(connection, registry).lock()
    newest = sa.select(events.c.stream, sa.func.max(events.c.version).label("version")).group_by(events.c.stream)
    versions = {row.stream: row.version for row in connection.execute(newest)}

    def rows() -> Iterator[list[object]]:
        nonlocal head
        for stored in chain(head, versions, entries):
            row = row_of(stored)
            yield [row[name] for name in _COLUMNS]
            head = Head(stored.position, stored.hash)

    copy_rows(connection, events, rows())
    move_head(connection, head)
    return head
