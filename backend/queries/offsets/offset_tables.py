"""Tables of the workers' observations of committed offsets, and of what they set.

Workers write these tables; queries read them. They hold observations, like those of `observed.py`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.eventlog.tables import METADATA


def _place() -> tuple[sa.Column[str], sa.Column[str], sa.Column[int]]:
    return (
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    )


# The index of a log: `domain/records/log_index.py`, Mark.
log_marks = sa.Table(
    "log_marks",
    METADATA,
    *_place(),
    sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
    # Newest incarnation of the log's records; marks of another incarnation describe a log that no longer exists.
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    # {origin's cluster number: [incarnation, highest offset]} of the records before `first`.
    sa.Column("seen", JSONB, nullable=False),
    sa.Column("min_timestamp_ms", sa.BigInteger),
    sa.Column("last_offset", sa.BigInteger),
    sa.Column("last_timestamp_ms", sa.BigInteger),
    # Whether `seen` covers all that ever lay before; false if part of it was deleted before it was indexed.
    sa.Column("whole", sa.Boolean, nullable=False, server_default=sa.true()),
)

# The groups' own last commits on a cluster.
group_commits = sa.Table(
    "group_commits",
    METADATA,
    *_place(),
    sa.Column("group", sa.Text, primary_key=True),
    sa.Column("technical_group", sa.Text, nullable=False),
    sa.Column("committed_offset", sa.BigInteger, nullable=False),
    sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
    # Timestamp of the last record before the offset; NULL if there is none.
    sa.Column("timestamp_ms", sa.BigInteger),
    # Smallest timestamp of the records at or after the offset; NULL if there are none.
    sa.Column("safe_timestamp_ms", sa.BigInteger),
    # As in log_marks; NULL where origins are not written.
    sa.Column("vector", JSONB),
    # As in log_marks.
    sa.Column("whole", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("incarnation", sa.BigInteger),
    # Incarnation of the topic; NULL: not known.
    sa.Column("topic_incarnation", sa.BigInteger),
    # Whether the offset was deleted or expired since; such a row stays where older progress elsewhere must not
    # count.
    sa.Column("is_ended", sa.Boolean, nullable=False, server_default=sa.false()),
    # The broker's timestamp; `committed_at_ms` is the time by which commits are ordered.
    sa.Column("broker_ms", sa.BigInteger),
    # Offset of the commit's record in the `__consumer_offsets` partition of that Kafka cluster; NULL: not known.
    sa.Column("kafka_cluster_id", sa.Text),
    sa.Column("read_at", sa.BigInteger),
    sa.Column("published_at_ms", sa.BigInteger, nullable=False),
    sa.Index("group_commits_stream", "stream"),
    sa.Index("group_commits_group", "group"),
)

# Groups whose offsets are not distributed, with the reason.
groups_not_followed = sa.Table(
    "groups_not_followed",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("technical_group", sa.Text, primary_key=True),
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)

# How far `__consumer_offsets` of each cluster was read and its results were stored.
commit_log_positions = sa.Table(
    "commit_log_positions",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # Another Kafka cluster at the same address has another log.
    sa.Column("kafka_cluster_id", sa.Text, nullable=False),
    # {partition: next offset}
    sa.Column("positions", JSONB, nullable=False),
)

# What a cluster's committer did for groups whose newest progress was made elsewhere.
applied_offsets = sa.Table(
    "applied_offsets",
    METADATA,
    *_place(),
    sa.Column("group", sa.Text, primary_key=True),
    sa.Column("technical_group", sa.Text, nullable=False),
    # applied, has-members (the group has active members there and is left alone), waiting, failed; all but the
    # first with the reason.
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    # The progress that was applied: its cluster and its order.
    sa.Column("origin_cluster", sa.Text, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
    # Digest of what was known of the progress: `domain/offsets/offset_map.py`, Progress.
    sa.Column("progress_digest", sa.Text),
    # The columns below describe the offset that was set last; NULL if none was.
    sa.Column("offset", sa.BigInteger),
    sa.Column("mode", sa.Text),
    # NULL: not known.
    sa.Column("re_read_bound", sa.BigInteger),
    # Whether the cluster has all that the group has read; if not, the offset rises as the rest arrives.
    sa.Column("settled", sa.Boolean),
    sa.Column("applied_at_ms", sa.BigInteger),
    # Newest incarnation of the cluster's log when the offset was set.
    sa.Column("incarnation", sa.BigInteger),
    # Time of the progress for which it was set; the columns above are of the newest progress known.
    sa.Column("set_for_ms", sa.BigInteger),
    sa.Index("applied_offsets_origin", "origin_cluster", "stream", "partition", "group"),
)

TABLES = (log_marks, group_commits, groups_not_followed, commit_log_positions, applied_offsets)
