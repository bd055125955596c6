"""How often and how long units waited for schemas at their target."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018_schema_holds"
down_revision = "0016_access"
branch_labels = None
depends_on = None

COLUMNS = (
    ("schema_holds", sa.BigInteger),
    ("schema_held_seconds", sa.Float),
    ("schema_waits_run_out", sa.BigInteger),
)


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("unit_states", sa.Column(name, kind, nullable=False, server_default="0"))


def downgrade() -> None:
    for name, _ in COLUMNS:
        op.drop_column("unit_states", name)
