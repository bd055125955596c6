"""Balances of the sample purses as a temporal table."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from backend.eventlog.recorded import RecordedEvent
from backend.projections import temporal
from backend.projections.framework import Projection
from tests.support.database.sample_events import Paid

METADATA = sa.MetaData()
balances = temporal.temporal_table(
    "sample_balances",
    METADATA,
    sa.Column("purse", sa.Text, primary_key=True),
    sa.Column("balance", sa.BigInteger, nullable=False),
)


def apply(connection: Connection, recorded: RecordedEvent) -> None:
    assert isinstance(recorded.event, Paid)
    key = {"purse": recorded.stream}
    present = temporal.current(connection, balances, key)
    total = (present["balance"] if present else 0) + recorded.event.amount
    temporal.replace(connection, balances, key, {"balance": total}, recorded.position)


BALANCES = Projection("sample_balances", frozenset({Paid}), (balances,), apply)


def create_tables(owner: Engine) -> None:
    """Create the tables as a migration would; the application gets its rights by default privileges."""
    METADATA.create_all(owner)


def read(connection: Connection, at: int | None = None) -> dict[str, int]:
    query = sa.select(balances.c.purse, balances.c.balance).where(temporal.as_of(balances, at))
    rows = connection.execute(query).all()
    assert len({row.purse for row in rows}) == len(rows), "a purse has one balance at a time"
    return {row.purse: row.balance for row in rows}
