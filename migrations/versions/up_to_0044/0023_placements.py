"""Placements of clusters' replicas, and the documents of their plans."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0023_placements"
down_revision = "0022_words_by_position"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("placements", "placement_plans")


def upgrade() -> None:
    op.create_table(
        "placements",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("aims", JSONB, nullable=False),
        sa.Column("digest", sa.Text),
        sa.Column("summary", JSONB),
        sa.Column("reason", sa.Text),
        sa.Column("requested", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(
        "placements_now", "placements", ["id"], unique=True, postgresql_where=sa.text("valid_to IS NULL")
    )
    op.create_table(
        "placement_plans",
        sa.Column("placement", sa.Text, primary_key=True),
        sa.Column("question", sa.LargeBinary, nullable=False),
        sa.Column("plan", sa.LargeBinary, nullable=False),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
