"""Leases whose lifetime follows the delay of renewals, and counts of fenced holders."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039_late_leases"
down_revision = "0038_held_locks"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("fenced", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("shifts", sa.Column("ttl_seconds", sa.Float, nullable=False, server_default="6"))


def downgrade() -> None:
    op.drop_column("shifts", "ttl_seconds")
    op.drop_column("leases", "fenced")
