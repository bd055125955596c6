"""Observations and work state of consumer offsets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0011_offsets"
down_revision = "0010_buckets"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("log_marks", "group_commits", "groups_not_followed", "commit_log_positions", "applied_offsets")


def upgrade() -> None:
    op.create_table(
        "log_marks",
        *_place(),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("incarnation", sa.BigInteger, nullable=False),
        sa.Column("seen", JSONB, nullable=False),
        sa.Column("min_timestamp_ms", sa.BigInteger),
        sa.Column("last_offset", sa.BigInteger),
        sa.Column("last_timestamp_ms", sa.BigInteger),
    )
    op.create_table(
        "group_commits",
        *_place(),
        sa.Column("group", sa.Text, primary_key=True),
        sa.Column("technical_group", sa.Text, nullable=False),
        sa.Column("committed_offset", sa.BigInteger, nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger),
        sa.Column("safe_timestamp_ms", sa.BigInteger),
        sa.Column("vector", JSONB),
        sa.Column("published_at_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "groups_not_followed",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("technical_group", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "commit_log_positions",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("kafka_cluster_id", sa.Text, nullable=False),
        sa.Column("positions", JSONB, nullable=False),
    )
    op.create_table(
        "applied_offsets",
        *_place(),
        sa.Column("group", sa.Text, primary_key=True),
        sa.Column("technical_group", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("origin_cluster", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("offset", sa.BigInteger),
        sa.Column("mode", sa.Text),
        sa.Column("re_read_bound", sa.BigInteger),
        sa.Column("settled", sa.Boolean),
        sa.Column("applied_at_ms", sa.BigInteger),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)


def _place() -> tuple[sa.Column[str], sa.Column[str], sa.Column[int]]:
    return (
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    )
