"""Adoptions: topics of a cluster that become streams."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007_adoptions"
down_revision = "0006_routes"
branch_labels = None
depends_on = None

TABLE = "adoptions"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("begun", sa.BigInteger, nullable=False),
        sa.Column("refused", JSONB),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(f"{TABLE}_now", TABLE, ["cluster"], unique=True, postgresql_where=sa.text("valid_to IS NULL"))


def downgrade() -> None:
    op.drop_table(TABLE)
