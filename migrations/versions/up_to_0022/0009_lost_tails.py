"""Incarnations of the partitions of a stream's topic that lost the tail of their log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009_lost_tails"
down_revision = "0008_edge_losses"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("stream_topics", sa.Column("tails", JSONB, nullable=False, server_default="{}"))
    op.alter_column("stream_topics", "tails", server_default=None)


def downgrade() -> None:
    op.drop_column("stream_topics", "tails")
