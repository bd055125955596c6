"""Replication health of clusters, as last observed by a worker."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0026_cluster_replication"
down_revision = "0025_placement_runs"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.create_table(
        "cluster_replication",
        sa.Column("kafka_cluster_id", sa.Text, primary_key=True),
        sa.Column("seen_at", sa.DateTime(timezone=True)),
        sa.Column("health", JSONB),
        sa.Column("reason", sa.Text),
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON cluster_replication TO {ROLE}")


def downgrade() -> None:
    op.drop_table("cluster_replication")
