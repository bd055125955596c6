"""Indexes for the topics that changed last, failed or are to be removed, without a scan of all topics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033_last_changes"
down_revision = "0032_logins"
branch_labels = None
depends_on = None

_TABLES = ("streams", "stream_topics")
_BOUNDS = ("valid_from", "valid_to")


def upgrade() -> None:
    for table in _TABLES:
        for bound in _BOUNDS:
            op.create_index(f"{table}_{bound}", table, [bound])
    for name, condition in (("failed", "failure IS NOT NULL"), ("going", "removing")):
        op.create_index(
            f"stream_topics_{name}",
            "stream_topics",
            ["cluster"],
            postgresql_where=sa.text(f"valid_to IS NULL AND {condition}"),
        )


def downgrade() -> None:
    for name in ("going", "failed"):
        op.drop_index(f"stream_topics_{name}", "stream_topics")
    for table in _TABLES:
        for bound in _BOUNDS:
            op.drop_index(f"{table}_{bound}", table)
