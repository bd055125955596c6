"""Declared topic settings of streams, and other settings of their topics as last observed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0041_topic_settings"
down_revision = "0040_offset_translation"
branch_labels = None
depends_on = None

ROLE = "treeline_application"
_NUMBERS = ("replication_factor", "min_insync_replicas")


def upgrade() -> None:
    # The upcaster gives streams that were declared before the same value: none.
    for name, empty in (("config", "{}"), ("released", "[]")):
        column = sa.Column(name, postgresql.JSONB, nullable=False, server_default=sa.text(f"'{empty}'::jsonb"))
        op.add_column("streams", column)
        op.alter_column("streams", name, server_default=None)
    for name in _NUMBERS:
        op.alter_column("streams", name, nullable=True)
    op.create_table(
        "topic_overrides",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("own", postgresql.JSONB, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "topic_defaults",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("defaults", postgresql.JSONB, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    )
    for table in ("topic_overrides", "topic_defaults"):
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    op.drop_table("topic_defaults")
    op.drop_table("topic_overrides")
    for name in _NUMBERS:
        # Older versions know only one default.
        op.execute(sa.text(f"UPDATE streams SET {name} = 1 WHERE {name} IS NULL"))
        op.alter_column("streams", name, nullable=False)
    for name in ("released", "config"):
        op.drop_column("streams", name)
