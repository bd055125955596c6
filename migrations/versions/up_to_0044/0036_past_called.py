"""Index by which past groups are found by their names."""

from __future__ import annotations

from alembic import op

revision = "0036_past_called"
down_revision = "0035_past"
branch_labels = None
depends_on = None

COLUMNS = ["technical_group", "cluster", "stream", "partition", "group"]


def upgrade() -> None:
    op.create_index("past_commits_called", "past_commits", COLUMNS)


def downgrade() -> None:
    op.drop_index("past_commits_called")
