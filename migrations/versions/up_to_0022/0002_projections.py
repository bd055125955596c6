"""Projections of clusters, trees, tenants and streams; login links and sessions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002_projections"
down_revision = "0001_event_log"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = (
    "clusters",
    "trees",
    "tree_leaves",
    "tree_targets",
    "tenants",
    "instances",
    "environments",
    "streams",
    "stream_topics",
    "login_links",
    "sessions",
)


def upgrade() -> None:
    # /readyz compares it with the newest migration of the running program.
    op.execute(f"GRANT SELECT ON alembic_version TO {ROLE}")
    _clusters()
    _trees()
    _tenants()
    _streams()
    op.create_table(
        "login_links",
        sa.Column("code_hash", sa.Text, primary_key=True),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "sessions",
        sa.Column("session_hash", sa.Text, primary_key=True),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
    op.execute(f"REVOKE SELECT ON alembic_version FROM {ROLE}")


def _clusters() -> None:
    _temporal(
        "clusters",
        ("name",),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("bootstrap_servers", sa.Text, nullable=False),
        sa.Column("zone", sa.Text),
        sa.Column("topic_format", sa.Text, nullable=False),
        sa.Column("group_format", sa.Text, nullable=False),
        sa.Column("subject_format", sa.Text, nullable=False),
        sa.Column("properties", JSONB, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("kafka_cluster_id", sa.Text),
        sa.Column("brokers", sa.Integer),
        sa.Column("version", sa.BigInteger, nullable=False),
    )


def _trees() -> None:
    _temporal(
        "trees",
        ("name",),
        sa.Column("root", JSONB, nullable=False),
        sa.Column("primary_cluster", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    _temporal("tree_leaves", ("tree", "cluster"))
    _temporal(
        "tree_targets",
        ("tree", "cluster", "level"),
        sa.Column("target", sa.Text, nullable=False),
    )


def _tenants() -> None:
    version = ("version", sa.BigInteger)
    _temporal("tenants", ("name",), sa.Column(*version, nullable=False))
    _temporal(
        "instances",
        ("tenant", "name"),
        sa.Column("tree", sa.Text, nullable=False),
        sa.Column(*version, nullable=False),
    )
    _temporal(
        "environments",
        ("tenant", "instance", "name"),
        sa.Column("margin_seconds", sa.Integer, nullable=False),
        sa.Column("offset_mode", sa.Text, nullable=False),
        sa.Column(*version, nullable=False),
    )


def _streams() -> None:
    _temporal(
        "streams",
        ("tenant", "instance", "environment", "stream"),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("replication_factor", sa.Integer, nullable=False),
        sa.Column("min_insync_replicas", sa.Integer, nullable=False),
        sa.Column("retention_ms", sa.BigInteger, nullable=False),
        sa.Column("cleanup_policy", sa.Text, nullable=False),
        sa.Column("distributed", sa.Boolean, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    _temporal(
        "stream_topics",
        ("tenant", "instance", "environment", "stream", "cluster"),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("topic_id", sa.Text),
        sa.Column("incarnation", sa.Integer, nullable=False),
        sa.Column("replication_factor", sa.Integer),
        sa.Column("removing", sa.Boolean, nullable=False),
    )


def _temporal(name: str, key: tuple[str, ...], *columns: sa.Column[Any]) -> None:
    """Create a table whose rows are valid from one position to another, with at most one open row per key."""
    op.create_table(
        name,
        *(
            sa.Column(part, sa.Integer if part == "level" else sa.Text, primary_key=True, autoincrement=False)
            for part in key
        ),
        *columns,
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(f"{name}_now", name, list(key), unique=True, postgresql_where=sa.text("valid_to IS NULL"))
