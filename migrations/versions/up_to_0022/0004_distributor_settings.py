"""Settings of distributors: paused, limit, compression."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_distributor_settings"
down_revision = "0003_work"
branch_labels = None
depends_on = None

TABLE = "distributor_settings"
KEY = ("tree", "cluster", "level")


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("tree", sa.Text, primary_key=True),
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("bytes_per_second", sa.BigInteger),
        sa.Column("compression", sa.Text, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(f"{TABLE}_now", TABLE, list(KEY), unique=True, postgresql_where=sa.text("valid_to IS NULL"))


def downgrade() -> None:
    op.drop_table(TABLE)
