"""Tables of consumer groups as workers observe them; queries read them.

They hold observations, like those of `observed.py`: nothing of them is an event, and they are null under `?at=`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from backend.eventlog.tables import METADATA

observed_groups = sa.Table(
    "observed_groups",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("technical_group", sa.Text, primary_key=True),
    # The group's own name and its `tenant/instance/environment`, by the cluster's group format; NULL if the name
    # does not match it.
    sa.Column("group", sa.Text),
    sa.Column("place", sa.Text),
    # Tenants that may see the group: that of its place, and those of the streams that it has offsets for.
    sa.Column("tenants", ARRAY(sa.Text), nullable=False),
    sa.Column("streams", ARRAY(sa.Text), nullable=False),
    # Whether one of the tenants may see only a part of it: `observed_groups.py`, seen_by.
    sa.Column("is_shared", sa.Boolean, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("state_since_ms", sa.BigInteger),
    # Why its members or offsets could not be read.
    sa.Column("reason", sa.Text),
    sa.Column("protocol", sa.Text, nullable=False),
    sa.Column("member_count", sa.Integer, nullable=False),
    sa.Column("partition_count", sa.Integer, nullable=False),
    # Lists of `domain/offsets/observed_group.py`, GroupMember and GroupPartition, without fields that are None.
    sa.Column("members", JSONB, nullable=False),
    sa.Column("partitions", JSONB, nullable=False),
    sa.Column("lag_records", sa.BigInteger),
    sa.Column("records_per_second", sa.Float),
    sa.Column("time_lag_ms", sa.BigInteger),
    sa.Column("time_lag_at_least_ms", sa.BigInteger),
    sa.Column("diagnosis_code", sa.Text, nullable=False),
    sa.Column("diagnosis_text", sa.Text, nullable=False),
    # Since when the diagnosis holds.
    sa.Column("since_ms", sa.BigInteger),
    sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("observed_groups_tenants", "tenants", postgresql_using="gin"),
    sa.Index("observed_groups_streams", "streams", postgresql_using="gin"),
    sa.Index("observed_groups_group", "group"),
)

group_observations = sa.Table(
    "group_observations",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # Time of the last observation that succeeded; NULL: none did.
    sa.Column("observed_at", sa.DateTime(timezone=True)),
    sa.Column("groups", sa.Integer, nullable=False, server_default="0"),
    # Why the last observation failed; NULL: it did not.
    sa.Column("reason", sa.Text),
    # Whether the cluster has more groups than are observed.
    sa.Column("truncated", sa.Boolean, nullable=False, server_default=sa.false()),
)
