"""Hold times of completed switches, read from the event log."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.history.metrics import ALL
from backend.domain.history.steps import Sample
from backend.eventlog.tables import events
from backend.projections.switches import switches
from backend.projections.temporal import as_of

_COMPLETED = "SwitchCompleted"


def hold_sources(connection: Connection) -> list[str]:
    """Return the subjects of hold times: `all`, and each cluster that clients were moved away from."""
    query = sa.select(switches.c.source).where(as_of(switches, None)).distinct().order_by(switches.c.source)
    return [ALL, *connection.scalars(query)]


def read_holds(connection: Connection, from_ms: int, to_ms: int) -> dict[str, list[Sample]]:
    """Return the time in milliseconds for which each completed switch held clients, by subject.

    A sample has the time at which its switch was completed.
    """
    held = events.c.data[("report", "producers_held_ms")].as_float().label("held_ms")
    since, until = (datetime.fromtimestamp(each / 1000, UTC) for each in (from_ms, to_ms))
    query = (
        sa.select(sa.func.floor(sa.func.extract("epoch", events.c.time)).label("at"), held, switches.c.source)
        .join(switches, sa.and_(switches.c.id == events.c.data["switch"].as_string(), as_of(switches, None)))
        .where(events.c.name == _COMPLETED, events.c.time >= since, events.c.time < until)
    )
    found: dict[str, list[Sample]] = {ALL: []}
    for row in connection.execute(query):
        if row.held_ms is not None:
            sample = int(row.at), 1, float(row.held_ms)
            found[ALL].append(sample)
            found.setdefault(row.source, []).append(sample)
    return found
