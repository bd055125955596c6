"""Number of offsets known to be lost: often none for recreated topics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043_possible_losses"
down_revision = "0042_replica_defaults"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("losses", sa.Column("at_least", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE losses SET at_least = last_offset - first_offset + 1 WHERE last_offset IS NOT NULL")
    op.alter_column("losses", "at_least", server_default=None)


def downgrade() -> None:
    op.drop_column("losses", "at_least")
