"""Maximum message size of streams."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_max_message_bytes"
down_revision = "0004_distributor_settings"
branch_labels = None
depends_on = None

UNTIL_NOW = "1048588"


def upgrade() -> None:
    # The upcaster gives streams that were declared before the same value.
    column = sa.Column("max_message_bytes", sa.Integer, nullable=False, server_default=UNTIL_NOW)
    op.add_column("streams", column)
    op.alter_column("streams", "max_message_bytes", server_default=None)


def downgrade() -> None:
    op.drop_column("streams", "max_message_bytes")
