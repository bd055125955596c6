"""Submitted reassignments, to be checked and applied as placements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027_placements_given"
down_revision = "0026_cluster_replication"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.add_column("placements", sa.Column("given", sa.BigInteger))
    op.create_table(
        "placement_reassignments",
        sa.Column("placement", sa.Text, primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON placement_reassignments TO {ROLE}")


def downgrade() -> None:
    op.drop_table("placement_reassignments")
    op.drop_column("placements", "given")
