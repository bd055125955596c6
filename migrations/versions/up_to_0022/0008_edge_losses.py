"""Records that distributors could not copy: dead-lettered records and ranges of lost records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008_edge_losses"
down_revision = "0007_adoptions"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
KEYS = {"set_aside": ["id"], "losses": ["cluster", "level", "id"]}


def upgrade() -> None:
    op.create_table(
        "set_aside",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("origin", JSONB),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("replayed", sa.Boolean, nullable=False),
        sa.Column("recorded", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_table(
        "losses",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("first_offset", sa.BigInteger, nullable=False),
        sa.Column("last_offset", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("acknowledged", sa.Boolean, nullable=False),
        sa.Column("recorded", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    for table, key in KEYS.items():
        op.create_index(f"{table}_now", table, key, unique=True, postgresql_where=sa.text("valid_to IS NULL"))
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in KEYS:
        op.drop_table(table)
