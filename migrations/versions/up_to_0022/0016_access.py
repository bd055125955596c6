"""Users, memberships and tokens; hashes of tokens and passwords; the token from which a session came."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016_access"
down_revision = "0015_schema_targets"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("users", "memberships", "api_tokens", "token_hashes", "password_hashes")
FROM_TOKENS = ("login_links", "sessions")


def upgrade() -> None:
    version = ("version", sa.BigInteger)
    _temporal(
        "users",
        ("name",),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("has_password", sa.Boolean, nullable=False),
        sa.Column(*version, nullable=False),
    )
    _temporal("memberships", ("user", "tenant"), sa.Column("membership", sa.Text, nullable=False))
    # The members of a tenant.
    op.create_index("memberships_tenant", "memberships", ["tenant"])
    _temporal(
        "api_tokens",
        ("user", "name"),
        sa.Column("issued", sa.BigInteger, nullable=False),
        sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "token_hashes",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("issued", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "password_hashes",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False),
    )
    for table in FROM_TOKENS:
        op.add_column(table, sa.Column("token", sa.Text))
        op.add_column(table, sa.Column("issued", sa.BigInteger))
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in FROM_TOKENS:
        op.drop_column(table, "issued")
        op.drop_column(table, "token")
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
