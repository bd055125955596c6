"""The timeline finds events by their kind and by who caused them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030_timeline"
down_revision = "0029_route_epochs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("events_name_position", "events", ["name", "position"])
    op.create_index("events_actor_position", "events", [sa.text("(metadata ->> 'actor')"), "position"])


def downgrade() -> None:
    op.drop_index("events_actor_position", "events")
    op.drop_index("events_name_position", "events")
