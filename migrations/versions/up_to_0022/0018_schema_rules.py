"""Time that tasks waited for schemas at their target; environments that allow subjects by record name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018_schema_rules"
down_revision = "0017_applications"
branch_labels = None
depends_on = None

HOLDS = (
    ("schema_holds", sa.BigInteger),
    ("schema_held_seconds", sa.Float),
    ("schema_waits_run_out", sa.BigInteger),
)


def upgrade() -> None:
    for name, kind in HOLDS:
        op.add_column("unit_states", sa.Column(name, kind, nullable=False, server_default="0"))
    allowed = sa.Column("record_name_subjects", sa.Boolean, nullable=False, server_default=sa.true())
    op.add_column("environments", allowed)


def downgrade() -> None:
    for name, _ in HOLDS:
        op.drop_column("unit_states", name)
    op.drop_column("environments", "record_name_subjects")
