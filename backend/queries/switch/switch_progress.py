"""Observations of a running switch: progress within its phase, and for how long clients have held."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import JSONB, insert

from backend.eventlog.tables import METADATA

switch_progress = sa.Table(
    "switch_progress",
    METADATA,
    sa.Column("switch", sa.Text, primary_key=True),
    sa.Column("told", JSONB, nullable=False),
    # When clients were first told to hold, by the database's clock.
    sa.Column("held_at", sa.DateTime(timezone=True)),
)
_NOW = sa.func.clock_timestamp()


def write(connection: Connection, switch: str, told: dict[str, Any]) -> None:
    """Replace the progress of a switch."""
    row = insert(switch_progress).values(switch=switch, told=told)
    connection.execute(row.on_conflict_do_update(index_elements=["switch"], set_={"told": told}))


def read(connection: Connection, switch: str) -> dict[str, Any] | None:
    """Return the latest progress of a switch; None: none was written."""
    query = sa.select(switch_progress.c.told).where(switch_progress.c.switch == switch)
    found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return found


def begin_hold(connection: Connection, switch: str) -> None:
    """Store the start of the hold; a later call replaces it, since clients have not held before it succeeds."""
    row = insert(switch_progress).values(switch=switch, told={}, held_at=_NOW)
    connection.execute(row.on_conflict_do_update(index_elements=["switch"], set_={"held_at": _NOW}))


def held_ms(connection: Connection, switch: str) -> int:
    """Return for how many milliseconds clients have held; 0 before the hold."""
    since = sa.cast(sa.extract("epoch", _NOW - switch_progress.c.held_at) * 1000, sa.BigInteger)
    query = sa.select(since).where(switch_progress.c.switch == switch)
    return connection.execute(query).scalar_one_or_none() or 0
