"""Routes into leaves with their barriers, re-rooted origins, and checkpoints of logs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006_routes"
down_revision = "0005_max_message_bytes"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("routes_basis", "leaf_routes", "origin_roots", "log_checkpoints")


def _temporal(name: str, keys: tuple[sa.Column[Any], ...], *columns: sa.Column[Any]) -> None:
    op.create_table(
        name,
        *keys,
        *columns,
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    names = [key.name for key in keys]
    op.create_index(f"{name}_now", name, names, unique=True, postgresql_where=sa.text("valid_to IS NULL"))


def upgrade() -> None:
    _temporal(
        "routes_basis",
        (sa.Column("tree", sa.Text, primary_key=True),),
        sa.Column("root", JSONB, nullable=False),
        sa.Column("targets", JSONB, nullable=False),
        sa.Column("rerooted", sa.BigInteger, nullable=False),
    )
    _temporal(
        "leaf_routes",
        (sa.Column("tree", sa.Text, primary_key=True), sa.Column("cluster", sa.Text, primary_key=True)),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("wanted", sa.BigInteger, nullable=False),
        sa.Column("entered", sa.BigInteger, nullable=False),
        sa.Column("inbound", JSONB, nullable=False),
    )
    _temporal(
        "origin_roots",
        (
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("stream", sa.Text, primary_key=True),
            sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        ),
        sa.Column("leaf", sa.Text, nullable=False),
    )
    op.create_table(
        "log_checkpoints",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("incarnation", sa.BigInteger, nullable=False),
        sa.Column("seen", JSONB, nullable=False),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
