"""Default replicas of clusters for streams that do not declare them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0042_replica_defaults"
down_revision = "0041_topic_settings"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Clusters that were added before have no defaults: automatic.
    empty = sa.text("'{}'::jsonb")
    op.add_column("clusters", sa.Column("defaults", postgresql.JSONB, nullable=False, server_default=empty))
    op.alter_column("clusters", "defaults", server_default=None)


def downgrade() -> None:
    op.drop_column("clusters", "defaults")
