"""Runs of placements: progress, limits, and throttles to be removed again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0025_placement_runs"
down_revision = "0024_where_clients_work"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.add_column("placements", sa.Column("run", sa.BigInteger, nullable=False, server_default="0"))
    op.alter_column("placements", "run", server_default=None)
    op.add_column("placements", sa.Column("limits", JSONB))
    op.add_column("placements", sa.Column("report", JSONB))
    op.create_table(
        "placement_runs",
        sa.Column("placement", sa.Text, primary_key=True),
        sa.Column("topic_ids", sa.LargeBinary),
        sa.Column("throttle", JSONB),
        sa.Column("told", JSONB),
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON placement_runs TO {ROLE}")


def downgrade() -> None:
    op.drop_table("placement_runs")
    for column in ("report", "limits", "run"):
        op.drop_column("placements", column)
