"""History of observations: snapshots, and the differences of each from the one before."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0035_past"
down_revision = "0034_unit_counts"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
PLACE = {"cluster": sa.Text, "stream": sa.Text, "partition": sa.Integer, "group": sa.Text}
TABLES = ("looks", "past_commits", "past_applied", "past_not_followed", "past_replication")


def _past(name: str, keys: dict[str, Any], *values: sa.Column[Any]) -> None:
    op.create_table(
        name,
        *(sa.Column(key, kind, primary_key=True, autoincrement=False) for key, kind in keys.items()),
        sa.Column("since", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("is_newest", sa.Boolean, nullable=False),
        *values,
    )
    op.create_index(f"{name}_newest", name, [*keys], unique=True, postgresql_where=sa.text("is_newest"))
    op.create_index(f"{name}_until", name, ["until"], postgresql_where=sa.text("until IS NOT NULL"))


def upgrade() -> None:
    op.create_table("looks", sa.Column("at", sa.DateTime(timezone=True), primary_key=True))
    _past(
        "past_commits",
        PLACE,
        sa.Column("technical_group", sa.Text, nullable=False),
        sa.Column("committed_offset", sa.BigInteger, nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
    )
    for column in ("stream", "group"):
        op.create_index(f"past_commits_{column}", "past_commits", [column], postgresql_where=sa.text("is_newest"))
    _past(
        "past_applied",
        PLACE,
        sa.Column("technical_group", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("origin_cluster", sa.Text, nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("offset", sa.BigInteger),
        sa.Column("mode", sa.Text),
        sa.Column("re_read_bound", sa.BigInteger),
        sa.Column("settled", sa.Boolean),
        sa.Column("applied_at_ms", sa.BigInteger),
    )
    of = ["stream", "partition", "group"]
    op.create_index("past_applied_of", "past_applied", of, postgresql_where=sa.text("is_newest"))
    _past(
        "past_not_followed",
        {"cluster": sa.Text, "technical_group": sa.Text, "topic": sa.Text},
        sa.Column("reason", sa.Text, nullable=False),
    )
    _past(
        "past_replication",
        {"kafka_cluster_id": sa.Text},
        sa.Column("health", JSONB),
        sa.Column("reason", sa.Text),
        sa.Column("is_stale", sa.Boolean, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True)),
    )
    for table in TABLES:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
