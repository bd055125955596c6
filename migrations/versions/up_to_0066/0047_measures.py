"""Measures over time: series, and their samples in blocks; sizes of a cluster's replicas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0047_measures"
down_revision = "0046_observed_groups"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
TABLES = ("measure_series", "measure_samples")


def upgrade() -> None:
    op.create_table(
        "measure_series",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("metric", "subject", name="measure_series_of"),
    )
    op.create_table(
        "measure_samples",
        sa.Column("step_seconds", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("values", ARRAY(sa.REAL), nullable=False),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")
    op.add_column("cluster_replication", sa.Column("sizes", JSONB))


def downgrade() -> None:
    op.drop_column("cluster_replication", "sizes")
    for table in TABLES:
        op.drop_table(table)
