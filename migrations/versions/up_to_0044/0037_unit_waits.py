"""Time for which records wait, as reported by tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037_unit_waits"
down_revision = "0036_past_called"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("unit_states", sa.Column("wait_seconds", sa.Float))


def downgrade() -> None:
    op.drop_column("unit_states", "wait_seconds")
