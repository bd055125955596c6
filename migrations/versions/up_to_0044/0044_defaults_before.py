"""Default replicas of clusters before the last change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0044_defaults_before"
down_revision = "0043_possible_losses"
branch_labels = None
depends_on = None

# As the projection folds them. Numbers are never reused: they tell a cluster from an earlier one with its name.
_FILL = """
    WITH neighbours AS (
        SELECT name, number, valid_from, defaults, lag(defaults) OVER spans AS former
        FROM clusters WINDOW spans AS (PARTITION BY name, number ORDER BY valid_from)
    ), settings AS (
        SELECT name, number, former, valid_from, lead(valid_from) OVER spans AS next_from
        FROM neighbours WHERE former <> defaults WINDOW spans AS (PARTITION BY name, number ORDER BY valid_from)
    )
    UPDATE clusters SET defaults_before = settings.former FROM settings
    WHERE clusters.name = settings.name AND clusters.number = settings.number
      AND clusters.valid_from >= settings.valid_from
      AND (settings.next_from IS NULL OR clusters.valid_from < settings.next_from)
"""


def upgrade() -> None:
    empty = sa.text("'{}'::jsonb")
    op.add_column("clusters", sa.Column("defaults_before", postgresql.JSONB, nullable=False, server_default=empty))
    op.execute(_FILL)
    op.alter_column("clusters", "defaults_before", server_default=None)


def downgrade() -> None:
    op.drop_column("clusters", "defaults_before")
