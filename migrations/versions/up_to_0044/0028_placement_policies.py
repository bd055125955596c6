"""Placement policies for brokers that join or leave, brokers as observed, and proposals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0028_placement_policies"
down_revision = "0027_placements_given"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.create_table(
        "placement_policies",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("away_minutes", sa.BigInteger, nullable=False),
        sa.Column("limits", JSONB, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(
        "placement_policies_now",
        "placement_policies",
        ["cluster"],
        unique=True,
        postgresql_where=sa.text("valid_to IS NULL"),
    )
    op.create_table(
        "cluster_brokers",
        sa.Column("kafka_cluster_id", sa.Text, primary_key=True),
        sa.Column("broker", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("is_here", sa.Boolean, nullable=False),
        sa.Column("is_empty", sa.Boolean, nullable=False),
        sa.Column("came_empty", sa.Boolean, nullable=False),
        sa.Column("was_emptied", sa.Boolean, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    )
    op.add_column("placements", sa.Column("proposal", JSONB))
    for table in ("placement_policies", "cluster_brokers"):
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    op.drop_column("placements", "proposal")
    op.drop_table("cluster_brokers")
    op.drop_table("placement_policies")
