"""Epochs of the zone router's channel, and reports of its nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0029_route_epochs"
down_revision = "0028_placement_policies"
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    op.create_table(
        "route_epochs",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("current", sa.BigInteger, nullable=False),
        sa.Column("fenced", sa.BigInteger, nullable=False),
        sa.Column("committed", sa.BigInteger, nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("committed_at", sa.DateTime(timezone=True)),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("valid_to", sa.BigInteger),
    )
    op.create_index(
        "route_epochs_now", "route_epochs", ["stream"], unique=True, postgresql_where=sa.text("valid_to IS NULL")
    )
    op.create_table(
        "zone_router_nodes",
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("report", JSONB, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("unbroken_since", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index(
        "events_but_route_epochs", "events", ["position"], postgresql_where=sa.text("stream <> 'route-epochs'")
    )
    for table in ("route_epochs", "zone_router_nodes"):
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def downgrade() -> None:
    op.drop_index("events_but_route_epochs", "events")
    op.drop_table("zone_router_nodes")
    op.drop_table("route_epochs")
