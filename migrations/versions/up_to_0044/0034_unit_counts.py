"""Schema waits counted by a task's earlier holders, so that counters continue when it changes hands."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034_unit_counts"
down_revision = "0033_last_changes"
branch_labels = None
depends_on = None

COUNTS = (
    ("schema_holds_before", sa.BigInteger),
    ("schema_held_seconds_before", sa.Float),
    ("schema_waits_run_out_before", sa.BigInteger),
)


def upgrade() -> None:
    for name, kind in COUNTS:
        op.add_column("unit_states", sa.Column(name, kind, nullable=False, server_default="0"))


def downgrade() -> None:
    for name, _ in COUNTS:
        op.drop_column("unit_states", name)
