"""Flag for logs whose beginning was gone before the first poll; the broker's own time of a commit.

The broker's time tells whether a commit has to be read again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_whole_prefixes"
down_revision = "0012_applied_incarnation"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # It is unknown which of them are whole; an index is rebuilt by the next commit.
    op.execute("DELETE FROM log_marks")
    for table in ("log_marks", "group_commits"):
        op.add_column(table, sa.Column("whole", sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column("group_commits", sa.Column("incarnation", sa.BigInteger))
    op.add_column("group_commits", sa.Column("broker_ms", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("group_commits", "broker_ms")
    op.drop_column("group_commits", "incarnation")
    for table in ("group_commits", "log_marks"):
        op.drop_column(table, "whole")
