"""State of the offset translator, and the reason why it waits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0040_offset_translation"
down_revision = "0039_late_leases"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "offset_translation",
        sa.Column("translator", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("waiting", JSONB, nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("offset_translation")
