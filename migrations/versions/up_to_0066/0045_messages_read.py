"""Tenants of audit rows that are no events: whose messages a request read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045_messages_read"
down_revision = "0044_defaults_before"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default stays: programs of the version before write logins until they are upgraded, too.
    op.add_column("logins", sa.Column("tenant", sa.Text, nullable=False, server_default=""))
    # Logins are of no tenant, and by far the most rows.
    op.create_index("logins_tenant", "logins", ["tenant", "id"], postgresql_where=sa.text("tenant <> ''"))


def downgrade() -> None:
    op.drop_column("logins", "tenant")
