"""What has not arrived yet is NULL, not the JSON value null: workers look for it."""

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
    """Nothing: both read as nothing."""
