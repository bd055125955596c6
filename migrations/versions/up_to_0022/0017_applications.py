"""Applications, their grants, their state on clusters, and their encrypted passwords."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017_applications"
down_revision = "0016_access"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("applications", "grants", "application_clusters", "application_secrets")
APPLICATION = ("tenant", "instance", "environment", "application")


def upgrade() -> None:
    _temporal(
        "applications",
        APPLICATION,
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("groups", JSONB, nullable=False),
        sa.Column("producer_bytes_per_second", sa.BigInteger),
        sa.Column("consumer_bytes_per_second", sa.BigInteger),
        sa.Column("request_percentage", sa.Integer),
        sa.Column("credentials", sa.Integer),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    _temporal(
        "grants",
        (*APPLICATION, "operation", "stream"),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("decided_by", sa.Text),
    )
    # Grants that a tenant has to decide on.
    op.create_index("grants_owner", "grants", ["owner"])
    _temporal(
        "application_clusters",
        (*APPLICATION, "cluster"),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("parts", JSONB, nullable=False),
    )
    op.create_table(
        "application_secrets",
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _temporal(name: str, key: tuple[str, ...], *columns: sa.Column[Any]) -> None:
    op.create_table(
        name,
        *(sa.Column(part, sa.Text, primary_key=True) for part in key),
        *columns,
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(f"{name}_now", name, list(key), unique=True, postgresql_where=sa.text("valid_to IS NULL"))
