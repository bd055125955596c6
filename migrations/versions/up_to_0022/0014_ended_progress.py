"""Ended progress of groups, the place where commits were read, and the origin of applied offsets.

Ended progress stays on the map so that progress of other clusters does not count again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014_ended_progress"
down_revision = "0013_whole_prefixes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("group_commits", sa.Column("topic_incarnation", sa.BigInteger))
    op.add_column("group_commits", sa.Column("kafka_cluster_id", sa.Text))
    op.add_column("group_commits", sa.Column("read_at", sa.BigInteger))
    op.add_column("group_commits", sa.Column("is_ended", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("applied_offsets", sa.Column("progress_digest", sa.Text))


def downgrade() -> None:
    op.drop_column("applied_offsets", "progress_digest")
    op.drop_column("group_commits", "is_ended")
    op.drop_column("group_commits", "read_at")
    op.drop_column("group_commits", "kafka_cluster_id")
    op.drop_column("group_commits", "topic_incarnation")
