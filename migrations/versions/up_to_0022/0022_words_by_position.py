"""Order of clients' hold confirmations by positions of the event log instead of times.

Clocks differ between the machines that PostgreSQL may run on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022_words_by_position"
down_revision = "0021_stranded_arrived"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("discovery_clients", sa.Column("given_at", sa.BigInteger))
    op.add_column("discovery_clients", sa.Column("arrived_in", sa.BigInteger))
    op.drop_column("discovery_clients", "arrived")
    op.add_column("active_clusters", sa.Column("left_generation", sa.BigInteger))
    op.add_column("active_clusters", sa.Column("marked_at", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("active_clusters", "marked_at")
    op.drop_column("active_clusters", "left_generation")
    op.add_column("discovery_clients", sa.Column("arrived", sa.Boolean, nullable=False, server_default=sa.false()))
    op.drop_column("discovery_clients", "arrived_in")
    op.drop_column("discovery_clients", "given_at")
