"""Observations of workers: leases, sessions, states of tasks, checkpoints, replication, nodes of the zone router.

None of them is an event: they are replaced as they change, may be lost without harm, and are null under `?at=`.
Workers write these tables, and the API writes the reports of zone router nodes; queries read them.
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
    # NULL once released.
    sa.Column("holder", sa.Text),
    # The fencing epoch: incremented with each new holder.
    sa.Column("epoch", sa.BigInteger, nullable=False),
    # By the database's clock, so that a worker with a wrong clock neither holds too long nor steals.
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    # How often a live holder found the lease taken by another one.
    sa.Column("fenced", sa.BigInteger, nullable=False, server_default="0"),
)

shifts = sa.Table(
    "shifts",
    METADATA,
    sa.Column("holder", sa.Text, primary_key=True),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
    # Time for which it counts as alive; longer for one whose reports are late.
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
    # See backend.domain.distribution.wait_times; NULL like the lag, and for workers of a version without it.
    sa.Column("wait_seconds", sa.Float),
    sa.Column("records_per_second", sa.Float, nullable=False),
    sa.Column("copied_records", sa.BigInteger, nullable=False),
    sa.Column("copied_bytes", sa.BigInteger, nullable=False),
    sa.Column("unreadable_flags", sa.BigInteger, nullable=False),
    # Number of partitions' waits for a schema, their total time, and how many timed out.
    sa.Column("schema_holds", sa.BigInteger, nullable=False),
    sa.Column("schema_held_seconds", sa.Float, nullable=False),
    sa.Column("schema_waits_run_out", sa.BigInteger, nullable=False),
    # The same, for the task's former holders.
    sa.Column("schema_holds_before", sa.BigInteger, nullable=False),
    sa.Column("schema_held_seconds_before", sa.Float, nullable=False),
    sa.Column("schema_waits_run_out_before", sa.BigInteger, nullable=False),
    # Position of the event log whose desired state the task carries out.
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
    # Not the name, which may be given to another cluster.
    sa.Column("kafka_cluster_id", sa.Text, primary_key=True),
    # Time of the last successful poll; NULL, like its health, if there was none.
    sa.Column("seen_at", sa.DateTime(timezone=True)),
    sa.Column("health", JSONB(none_as_null=True)),
    # Why the polls since have failed.
    sa.Column("reason", sa.Text),
    # Bytes of replicas, polled about once a minute; see backend.domain.replication.replica_sizes.
    sa.Column("sizes", JSONB(none_as_null=True)),
)

STALE = timedelta(minutes=1)
"""Age from which an observation of a cluster's replication is stale: a worker polls every ten seconds or so."""

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
    # Full name of the stream whose topic it is.
    sa.Column("stream", sa.Text, primary_key=True),
    # {setting: value} of settings on the topic itself that differ from the declaration; no row without any.
    sa.Column("own", JSONB, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

topic_defaults = sa.Table(
    "topic_defaults",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # {setting: value} for topics that do not set it themselves.
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
    # Time of the first of the reports that have come without a gap since.
    sa.Column("unbroken_since", sa.DateTime(timezone=True), nullable=False),
)
