"""Active clusters of discovery, switches with their phases, and the clients that were seen."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0020_switches"
down_revision = "0019_unconfirmed_deletions"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("active_clusters", "active_basis", "switches", "switch_phases", "discovery_clients", "switch_progress")
ENVIRONMENT = ("tenant", "instance", "environment")


def upgrade() -> None:
    _temporal(
        "active_clusters",
        _texts(*ENVIRONMENT, "zone"),
        sa.Column("cluster", sa.Text),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("switch", sa.Text),
        sa.Column("mode", sa.Text),
    )
    _temporal(
        "active_basis",
        _texts("tree"),
        sa.Column("primary_cluster", sa.Text, nullable=False),
        sa.Column("leaves", JSONB, nullable=False),
    )
    _temporal(
        "switches",
        _texts("id"),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("moves", JSONB, nullable=False),
        sa.Column("drain", sa.Text, nullable=False),
        sa.Column("retargets", JSONB, nullable=False),
        sa.Column("plan_digest", sa.Text),
        sa.Column("reverses", sa.Text),
        sa.Column("forced", JSONB, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("report", JSONB),
        sa.Column("arrived", JSONB),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    _temporal(
        "switch_phases",
        (*_texts("switch"), sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("ended_at", sa.Text),
        sa.Column("measured", JSONB, nullable=False),
    )
    op.create_table(
        "discovery_clients",
        *_texts(*ENVIRONMENT, "client_id"),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("software", sa.Text),
        sa.Column("awaited_by", sa.Text),
        sa.Column("arrived", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("still_since", sa.DateTime(timezone=True)),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("discovery_clients_seen", "discovery_clients", ["seen_at"])
    op.create_table(
        "switch_progress",
        *_texts("switch"),
        sa.Column("told", JSONB, nullable=False),
        sa.Column("held_at", sa.DateTime(timezone=True)),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _texts(*names: str) -> tuple[sa.Column[str], ...]:
    return tuple(sa.Column(name, sa.Text, primary_key=True) for name in names)


def _temporal(name: str, key: tuple[sa.Column[Any], ...], *columns: sa.Column[Any]) -> None:
    names = [column.name for column in key]
    op.create_table(
        name,
        *key,
        *columns,
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(f"{name}_now", name, names, unique=True, postgresql_where=sa.text("valid_to IS NULL"))
