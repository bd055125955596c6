"""NULL in place of the JSON value null for unreplicated records that have not arrived: workers query it."""

from __future__ import annotations

from alembic import op

revision = "0021_stranded_arrived"
down_revision = "0020_switches"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("report", "arrived"):
        op.execute(f"UPDATE switches SET {column} = NULL WHERE {column} = 'null'")


def downgrade() -> None:
    """Do nothing: both values are read as nothing."""
