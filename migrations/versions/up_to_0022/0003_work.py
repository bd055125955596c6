"""Work in progress: leases, worker sessions, states of tasks, internal topics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_work"
down_revision = "0002_projections"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("leases", "shifts", "unit_states", "internal_topics")


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("unit", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "shifts",
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "unit_states",
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
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "internal_topics",
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("topic_id", sa.Text, nullable=False),
        sa.Column("incarnation", sa.Integer, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
