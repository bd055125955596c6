"""Indexes by which open losses and dead letters, those of a stream, and results of deliveries are found.

Each is built from one table that grows slowly; only its writers wait, for a second or so with a million rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0048_open_items"
down_revision = "0047_measures"
branch_labels = None
depends_on = None

CLOSED = {"set_aside": "replayed", "losses": "acknowledged"}


def upgrade() -> None:
    for table, closed in CLOSED.items():
        is_open = sa.text(f"valid_to IS NULL AND NOT {closed}")
        op.create_index(f"{table}_open", table, ["cluster", "level"], postgresql_where=is_open)
        op.create_index(f"{table}_stream", table, ["stream", "valid_from"])
    op.create_index(
        "webhook_deliveries_results",
        "webhook_deliveries",
        ["webhook", "created", "state", "ended_at"],
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("webhook_deliveries_results", "webhook_deliveries")
    for table in CLOSED:
        op.drop_index(f"{table}_stream", table)
        op.drop_index(f"{table}_open", table)
