"""Number of tasks per distributor at a leaf's entry, and all numbers that there ever were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0010_buckets"
down_revision = "0009_lost_tails"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leaf_routes", sa.Column("buckets", sa.Integer, nullable=False, server_default="0"))
    op.add_column("leaf_routes", sa.Column("buckets_ever", JSONB, nullable=False, server_default="[]"))
    for column in ("buckets", "buckets_ever"):
        op.alter_column("leaf_routes", column, server_default=None)


def downgrade() -> None:
    op.drop_column("leaf_routes", "buckets_ever")
    op.drop_column("leaf_routes", "buckets")
