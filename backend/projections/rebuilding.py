"""Rebuild a projection from the first event, in memory, and correct its tables by COPY.

    fold to the head -> COPY beside the tables -> append lock -> correct what differs
        -> apply later events -> checkpoint -> commit -> lock is free

All but the last line happens while commands go on, and the lock is held for one comparison of the tables and for
the events of the seconds that the COPY took. Readers see the old rows until the commit. Correct rows are not
touched, so a rebuild of a sound projection leaves no dead rows behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, Table

from backend.eventlog.bulk import copy_rows
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog
from backend.projections import runner
from backend.projections.framework import Projection
from backend.projections.memory_rows import MemoryRows


def rebuild(engine: Engine, registry: EventRegistry, projection: Projection) -> int:
    """Replace a projection's rows by those that follow from the log, and return the position reached.

    Takes memory for all rows of the projection. Needs the right to create temporary tables, which every role has
    in PostgreSQL unless an administrator revoked it. Raises EventUnreadable, DatabaseUnavailable; then nothing has
    changed.
    """
    with engine.begin() as connection:
        # The COPY takes as long as the table is large; waiting for the lock below stays limited.
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        rows, position = _fold(connection, registry, projection)
        beside = [(table, _copied(connection, table, rows)) for table in projection.tables]
        head = PostgresEventLog(connection, registry).lock()
        for table, rebuilt in beside:
            _put_right(connection, table, rebuilt)
        runner.set_checkpoints(connection, [projection], position)
        runner.project(connection, registry, [projection], head.position, ())
        return head.position


def rebuild_far_behind(engine: Engine, registry: EventRegistry, projections: Sequence[Projection]) -> None:
    """Rebuild projections that lag far behind: new ones, and all of them after a restore.

    This is faster than applying the missing events, and commands need not wait for it.
    """
    with engine.connect() as connection:
        head = PostgresEventLog(connection, registry).head().position
        places = runner.positions(connection, projections)
    for projection in projections:
        lag = head - places[projection.name]
        if lag > max(runner.PAGE_EVENTS, head // 10):
            rebuild(engine, registry, projection)


def _fold(connection: Connection, registry: EventRegistry, projection: Projection) -> tuple[MemoryRows, int]:
    """Return the rows as of a position, without the lock: events commit in order, so none below it comes later."""
    rows = MemoryRows()
    head = PostgresEventLog(connection, registry).head().position
    last = 0
    for page in runner.unseen(connection, registry, [projection], 0):
        for recorded in page:
            projection.apply(rows, recorded)
            last = recorded.position
    return rows, max(head, last)


def _copied(connection: Connection, table: Table, rows: MemoryRows) -> Table:
    """Return a table with these rows that only this transaction sees."""
    columns = [sa.Column(column.name, column.type) for column in table.columns]
    rebuilt = Table(
        f"rebuilt_{table.name}", sa.MetaData(), *columns, prefixes=["TEMPORARY"], postgresql_on_commit="DROP"
    )
    rebuilt.create(connection, checkfirst=False)
    copy_rows(connection, rebuilt, rows.rows(table))
    # Autovacuum does not analyse temporary tables; without statistics they would be joined row by row.
    connection.execute(sa.text(f"ANALYZE {rebuilt.name}"))
    return rebuilt


def _put_right(connection: Connection, table: Table, rebuilt: Table) -> None:
    keys = [column.name for column in table.primary_key]
    others = [column.name for column in table.columns if column.name not in keys]
    same_key = sa.and_(*(table.c[name] == rebuilt.c[name] for name in keys))
    same = sa.and_(same_key, *(table.c[name].is_not_distinct_from(rebuilt.c[name]) for name in others))
    connection.execute(sa.delete(table).where(~sa.exists().where(same)))
    missing = sa.select(rebuilt).where(~sa.exists().where(same_key))
    connection.execute(sa.insert(table).from_select([column.name for column in table.columns], missing))
