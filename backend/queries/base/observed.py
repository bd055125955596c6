"""What workers see and hold right now: leases, shifts, states of units, checkpoints of logs, internal topics, the
replication of clusters and their brokers, nodes of the zone router.

None of it is an event: it is replaced as it changes, may be lost without harm, and is null under `?at=`.
Workers write these tables, and the API what nodes of the zone router report; queries read them.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.eventlog.tables import METADATA

leases = sa.Table(
    "leases",
    METADATA,
    sa.Column("unit", sa.Text, primary_key=True),
    # NULL once given back.
    sa.Column("holder", sa.Text),
    # The fencing epoch: one more with each new holder.
    sa.Column("epoch", sa.BigInteger, nullable=False),
    # By the database's clock, so that a worker whose clock is off neither holds too long nor steals.
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    # How often a holder that was alive found the lease taken by another one.
    sa.Column("fenced", sa.BigInteger, nullable=False, server_default="0"),
)

shifts = sa.Table(
    "shifts",
    METADATA,
    sa.Column("holder", sa.Text, primary_key=True),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    # For so long it counts as alive; longer for one whose reports are late.
    sa.Column("ttl_seconds", sa.Float, nullable=False, server_default="6"),
)

unit_states = sa.Table(
    "unit_states",
    METADATA,
    sa.Column("unit", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("lag_records", sa.BigInteger),
    # See backend.domain.distribution.waits; NULL as the lag is, and of workers of a version that does not tell it.
    sa.Column("wait_seconds", sa.Float),
    sa.Column("records_per_second", sa.Float, nullable=False),
    sa.Column("copied_records", sa.BigInteger, nullable=False),
    sa.Column("copied_bytes", sa.BigInteger, nullable=False),
    sa.Column("unreadable_flags", sa.BigInteger, nullable=False),
    # Times that a partition waited for a schema, how long in all, and how often in vain.
    sa.Column("schema_holds", sa.BigInteger, nullable=False),
    sa.Column("schema_held_seconds", sa.Float, nullable=False),
    sa.Column("schema_waits_run_out", sa.BigInteger, nullable=False),
    # The same, of the unit's holders before.
    sa.Column("schema_holds_before", sa.BigInteger, nullable=False),
    sa.Column("schema_held_seconds_before", sa.Float, nullable=False),
    sa.Column("schema_waits_run_out_before", sa.BigInteger, nullable=False),
    # Position of the event log whose desired state the unit carries out.
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

log_checkpoints = sa.Table(
    "log_checkpoints",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    # {origin's cluster number: [incarnation, highest offset]} of the log's records before `offset`.
    sa.Column("seen", JSONB, nullable=False),
)

internal_topics = sa.Table(
    "internal_topics",
    METADATA,
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("topic_id", sa.Text, nullable=False),
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("partitions", sa.Integer, nullable=False),
)

cluster_replication = sa.Table(
    "cluster_replication",
    METADATA,
    # Not the name, which may come to stand for another cluster.
    sa.Column("kafka_cluster_id", sa.Text, primary_key=True),
    # Of the last look that succeeded; NULL, as its health, if none has.
    sa.Column("seen_at", sa.DateTime(timezone=True)),
    sa.Column("health", JSONB(none_as_null=True)),
    # Why the looks since have failed.
    sa.Column("reason", sa.Text),
)

STALE = timedelta(minutes=1)
"""After which what was seen of a cluster's replication is old: a worker looks every ten seconds or so."""

cluster_brokers = sa.Table(
    "cluster_brokers",
    METADATA,
    sa.Column("kafka_cluster_id", sa.Text, primary_key=True),
    sa.Column("broker", sa.BigInteger, primary_key=True, autoincrement=False),
    # See backend.domain.placement.broker_changes.BrokerPresence.
    sa.Column("is_here", sa.Boolean, nullable=False),
    sa.Column("is_empty", sa.Boolean, nullable=False),
    sa.Column("came_empty", sa.Boolean, nullable=False),
    sa.Column("was_emptied", sa.Boolean, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
)

topic_overrides = sa.Table(
    "topic_overrides",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # STREAM in full, whose topic it is.
    sa.Column("stream", sa.Text, primary_key=True),
    # {setting: value} of what is set on the topic itself and not as declared; a topic without has no row.
    sa.Column("own", JSONB, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

topic_defaults = sa.Table(
    "topic_defaults",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # {setting: value} of topics that do not set it themselves.
    sa.Column("defaults", JSONB, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

zone_router_nodes = sa.Table(
    "zone_router_nodes",
    METADATA,
    sa.Column("node", sa.Text, primary_key=True),
    # See backend.queries.zones.zone_router.NodeReport.
    sa.Column("report", JSONB, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    # When the first of the reports came that came without a gap up to this one.
    sa.Column("unbroken_since", sa.DateTime(timezone=True), nullable=False),
)
