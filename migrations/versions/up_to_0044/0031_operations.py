"""Webhooks with their secrets and deliveries; stream metrics that tasks measure."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0031_operations"
down_revision = "0030_timeline"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("webhooks", "webhook_secrets", "webhook_cursors", "webhook_deliveries")


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("events", JSONB, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("secret_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(
        "webhooks_now", "webhooks", ["name"], unique=True, postgresql_where=sa.text("valid_to IS NULL")
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("webhook", sa.Text, primary_key=True),
        sa.Column("sealed", sa.Text, nullable=False),
    )
    op.create_table(
        "webhook_cursors",
        sa.Column("webhook", sa.Text, primary_key=True),
        sa.Column("created", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("webhook", sa.Text, primary_key=True),
        sa.Column("created", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("status", sa.Integer),
        sa.Column("problem", sa.Text),
    )
    op.create_index(
        "webhook_deliveries_due",
        "webhook_deliveries",
        ["webhook", "created", "due_at"],
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index("webhook_deliveries_ended", "webhook_deliveries", ["ended_at"])
    op.create_table(
        "stream_measures",
        sa.Column("unit", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("records_before", sa.BigInteger, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("bytes_before", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("passed_before", sa.BigInteger, nullable=False),
        sa.Column("passed", sa.BigInteger, nullable=False),
        sa.Column("lag_records", sa.BigInteger),
        sa.Column("newest_ms", sa.BigInteger),
        sa.Column("copied_ms", sa.BigInteger),
        sa.Column("latency_ms", sa.BigInteger),
        sa.Column("checkpoint_ms", sa.BigInteger),
    )
    for table in (*TABLES, "stream_measures"):
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in ("stream_measures", *reversed(TABLES)):
        op.drop_table(table)
