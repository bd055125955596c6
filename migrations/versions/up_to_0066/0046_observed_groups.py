"""Consumer groups as observed on each cluster, and how the last observation of each cluster went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0046_observed_groups"
down_revision = "0045_messages_read"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "observed_groups",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("technical_group", sa.Text, primary_key=True),
        sa.Column("group", sa.Text),
        sa.Column("place", sa.Text),
        sa.Column("tenants", ARRAY(sa.Text), nullable=False),
        sa.Column("streams", ARRAY(sa.Text), nullable=False),
        sa.Column("is_shared", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("state_since_ms", sa.BigInteger),
        sa.Column("reason", sa.Text),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("member_count", sa.Integer, nullable=False),
        sa.Column("partition_count", sa.Integer, nullable=False),
        sa.Column("members", JSONB, nullable=False),
        sa.Column("partitions", JSONB, nullable=False),
        sa.Column("lag_records", sa.BigInteger),
        sa.Column("records_per_second", sa.Float),
        sa.Column("time_lag_ms", sa.BigInteger),
        sa.Column("time_lag_at_least_ms", sa.BigInteger),
        sa.Column("diagnosis_code", sa.Text, nullable=False),
        sa.Column("diagnosis_text", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        # Rows are replaced every few seconds: with room on their page, no index has to be written.
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index("observed_groups_tenants", "observed_groups", ["tenants"], postgresql_using="gin")
    op.create_index("observed_groups_streams", "observed_groups", ["streams"], postgresql_using="gin")
    op.create_index("observed_groups_group", "observed_groups", ["group"])
    op.create_table(
        "group_observations",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("observed_at", sa.DateTime(timezone=True)),
        sa.Column("groups", sa.Integer, nullable=False, server_default="0"),
        sa.Column("reason", sa.Text),
        sa.Column("truncated", sa.Boolean, nullable=False, server_default=sa.false()),
    )


def downgrade() -> None:
    op.drop_table("group_observations")
    op.drop_table("observed_groups")
