"""Audit of logins; sessions that can be listed and ended; identities of OpenID providers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032_logins"
down_revision = "0031_operations"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("identities", "event_provenance", "logins")
OF_SESSIONS = ("name", "means", "opened_at", "address", "agent")


def upgrade() -> None:
    # Users have to log in again: how existing sessions began is unknown.
    op.execute("DELETE FROM sessions")
    for name in OF_SESSIONS:
        kind = sa.DateTime(timezone=True) if name == "opened_at" else sa.Text
        op.add_column("sessions", sa.Column(name, kind, nullable=False))
    op.create_unique_constraint("sessions_name_key", "sessions", ["name"])
    op.create_index("sessions_actor", "sessions", ["actor"])
    op.create_table(
        "identities",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(
        "identities_now", "identities", ["user"], unique=True, postgresql_where=sa.text("valid_to IS NULL")
    )
    op.create_index("identities_subject", "identities", ["subject", "issuer"])
    op.create_table(
        "event_provenance",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("means", "address", "agent")),
    )
    op.create_index("event_provenance_time", "event_provenance", ["time"])
    op.create_table(
        "logins",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "user", "reason")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("means", "address", "agent")),
    )
    for column in ("time", "user", "kind"):
        op.create_index(f"logins_{column}", "logins", [column, "id"])
    # Finds events by time, among millions.
    op.create_index("events_time", "events", ["time"])
    op.create_index(
        "events_by_people",
        "events",
        ["position"],
        postgresql_where=sa.text("metadata ->> 'actor' NOT LIKE 'worker:%'"),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    op.drop_index("events_by_people", "events")
    op.drop_index("events_time", "events")
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_index("sessions_actor", "sessions")
    for name in OF_SESSIONS:
        op.drop_column("sessions", name)
