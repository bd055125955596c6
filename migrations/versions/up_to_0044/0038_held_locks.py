"""Fencing epochs of locks that are held while external systems are called."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038_held_locks"
down_revision = "0037_unit_waits"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.create_table(
        "held_locks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column(
            "taken_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.clock_timestamp()
        ),
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON held_locks TO {ROLE}")


def downgrade() -> None:
    op.drop_table("held_locks")
