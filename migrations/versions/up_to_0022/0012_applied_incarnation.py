"""Incarnation and progress for which an offset was set.

An offset in another incarnation of the log says nothing. A later commit of an application in the same log is later
progress, whatever the clocks say.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_applied_incarnation"
down_revision = "0011_offsets"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("applied_offsets", sa.Column("incarnation", sa.BigInteger))
    op.add_column("applied_offsets", sa.Column("set_for_ms", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("applied_offsets", "set_for_ms")
    op.drop_column("applied_offsets", "incarnation")
