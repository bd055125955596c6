"""Tables of the event log (SQLAlchemy Core); every other module's tables join the same METADATA.

The application's role may only SELECT and INSERT on `events`; a trigger refuses changes by any role
(migrations/versions/up_to_0022/0001_event_log.py).
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.zones.route_epochs import EVENT_STREAM as ROUTE_EPOCHS

METADATA = sa.MetaData()

BUT_ROUTE_EPOCHS = sa.text(f"stream <> '{ROUTE_EPOCHS}'")
"""All events except route epochs, which come every ten seconds; a literal without parameters, so that its index is
used."""

BY_PEOPLE = sa.text("metadata ->> 'actor' NOT LIKE 'worker:%'")
"""Events that people caused, not workers; a literal, so that its index is used."""

events = sa.Table(
    "events",
    METADATA,
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    # Collation "C": prefix searches use the index, whatever the database's language.
    sa.Column("stream", sa.Text(collation="C"), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("data", JSONB, nullable=False),
    sa.Column("metadata", JSONB, nullable=False),
    sa.Column("time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("previous_hash", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.UniqueConstraint("stream", "version", name="events_stream_version"),
    # The newest of the other events is queried every second, and may be a year of epochs back.
    sa.Index("events_but_route_epochs", "position", postgresql_where=BUT_ROUTE_EPOCHS),
    # Finds the events of one actor, and those of one place, among millions.
    sa.Index("events_name_position", "name", "position"),
    sa.Index("events_actor_position", sa.text("(metadata ->> 'actor')"), "position"),
    sa.Index("events_time", "time"),
    sa.Index("events_by_people", "position", postgresql_where=BY_PEOPLE),
)
actor_of = sa.literal_column("metadata ->> 'actor'", sa.Text)
"""Actor of an event; a literal, so that its index is used."""

event_log_head = sa.Table(
    "event_log_head",
    METADATA,
    # A primary key that can only be true: the table holds one row, the lock of all appends.
    sa.Column(
        "singleton", sa.Boolean, sa.CheckConstraint("singleton", name="event_log_head_one_row"), primary_key=True
    ),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

held_locks = sa.Table(
    "held_locks",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    # The fencing epoch, incremented by each holder. Rows stay, so that no epoch is given twice.
    sa.Column("epoch", sa.BigInteger, nullable=False),
    # The last holder, for the message to waiters; the lock itself tells whether it is still held.
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.clock_timestamp()),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    METADATA,
    # Per actor, so that nobody can read another's answer by guessing a key.
    sa.Column("actor", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    # Text, not jsonb: a repeat returns the first answer byte for byte.
    sa.Column("headers", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("time", sa.DateTime(timezone=True), nullable=False),
    sa.Index("idempotency_keys_time", "time"),
)
