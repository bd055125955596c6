"""Flag for topics of deleted streams that are kept if they have records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019_unconfirmed_deletions"
down_revision = "0018_schema_rules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    column = sa.Column("unconfirmed", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("stream_topics", column)


def downgrade() -> None:
    op.drop_column("stream_topics", "unconfirmed")
