"""Indexes by which pages find events by kind and actor, offsets by group and stream, topics by cluster."""

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
    op.create_index("group_commits_stream", "group_commits", ["stream"])
    op.create_index("group_commits_group", "group_commits", ["group"])
    op.create_index(
        "applied_offsets_origin", "applied_offsets", ["origin_cluster", "stream", "partition", "group"]
    )
    op.create_index(
        "stream_topics_of_cluster",
        "stream_topics",
        ["cluster", "state"],
        postgresql_where=sa.text("valid_to IS NULL AND NOT removing"),
    )


def downgrade() -> None:
    op.drop_index("stream_topics_of_cluster", "stream_topics")
    op.drop_index("applied_offsets_origin", "applied_offsets")
    op.drop_index("group_commits_group", "group_commits")
    op.drop_index("group_commits_stream", "group_commits")
    op.drop_index("events_actor_position", "events")
    op.drop_index("events_name_position", "events")
