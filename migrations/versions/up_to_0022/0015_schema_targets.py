"""State of each target of the schema distributor, and the move of the primary in progress."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0015_schema_targets"
down_revision = "0014_ended_progress"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.create_table(
        "schema_targets",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("primary_cluster", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("subjects", sa.Integer),
        sa.Column("behind", sa.Integer),
        sa.Column("conflicts", JSONB, nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON schema_targets TO {ROLE}")
    op.add_column("trees", sa.Column("moving_to", sa.Text))
    op.add_column("trees", sa.Column("take_over", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("trees", "take_over")
    op.drop_column("trees", "moving_to")
    op.drop_table("schema_targets")
