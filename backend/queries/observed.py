"""What workers see and hold right now: leases, shifts, states of distributor units, internal topics.

None of it is an event: it is replaced as it changes, may be lost without harm, and is null under `?at=`.
Workers write these tables; queries read them.
"""

from __future__ import annotations

import sqlalchemy as sa

from backend.eventlog.tables import METADATA

leases = sa.Table(
    "leases",
    METADATA,
    sa.Column("unit", sa.Text, primary_key=True),
    # NULL once given back.
    sa.Column("holder", sa.Text),
    # The fencing epoch: one more with each new holder.
    sa.Column("epoch", sa.BigInteger, nullable=False),
    # By the database's clock, so that a worker whose clock is off neither holds too long nor steals.
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
)

shifts = sa.Table(
    "shifts",
    METADATA,
    sa.Column("holder", sa.Text, primary_key=True),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

unit_states = sa.Table(
    "unit_states",
    METADATA,
    sa.Column("unit", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("lag_records", sa.BigInteger),
    sa.Column("records_per_second", sa.Float, nullable=False),
    sa.Column("copied_records", sa.BigInteger, nullable=False),
    sa.Column("copied_bytes", sa.BigInteger, nullable=False),
    sa.Column("unreadable_flags", sa.BigInteger, nullable=False),
    # Position of the event log whose desired state the unit carries out.
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

internal_topics = sa.Table(
    "internal_topics",
    METADATA,
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("topic_id", sa.Text, nullable=False),
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("partitions", sa.Integer, nullable=False),
)
