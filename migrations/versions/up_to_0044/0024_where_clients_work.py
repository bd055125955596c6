"""Cluster on which a client reads and writes while it has not completed a move."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024_where_clients_work"
down_revision = "0023_placements"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("discovery_clients", sa.Column("still_in", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("discovery_clients", "still_in")
