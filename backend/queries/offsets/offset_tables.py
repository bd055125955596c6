"""What workers see and do about consumer offsets: observations, like those of `observed.py`.

Workers write these tables; queries read them.
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


# The index of a log: `domain/log_index.py`, Mark.
log_marks = sa.Table(
    "log_marks",
    METADATA,
    *_place(),
    sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
    # Newest incarnation of the log's records: marks of another one speak of a log that is no more.
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    # {origin's cluster number: [incarnation, highest offset]} of the records before `first`.
    sa.Column("seen", JSONB, nullable=False),
    sa.Column("min_timestamp_ms", sa.BigInteger),
    sa.Column("last_offset", sa.BigInteger),
    sa.Column("last_timestamp_ms", sa.BigInteger),
    # Whether `seen` says all that ever lay before: not if part of it was gone before anybody had looked.
    sa.Column("whole", sa.Boolean, nullable=False, server_default=sa.true()),
)

# What groups have committed on a cluster by themselves, and what stands there.
group_commits = sa.Table(
    "group_commits",
    METADATA,
    *_place(),
    sa.Column("group", sa.Text, primary_key=True),
    sa.Column("technical_group", sa.Text, nullable=False),
    sa.Column("committed_offset", sa.BigInteger, nullable=False),
    sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
    # Of the last record before the offset; NULL if there is none.
    sa.Column("timestamp_ms", sa.BigInteger),
    # The smallest of the records at or behind it; NULL if there are none.
    sa.Column("safe_timestamp_ms", sa.BigInteger),
    # As in log_marks; NULL where origins are not written.
    sa.Column("vector", JSONB),
    # As in log_marks.
    sa.Column("whole", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("incarnation", sa.BigInteger),
    # Of the topic; NULL: not known.
    sa.Column("topic_incarnation", sa.BigInteger),
    # Whether the offset was deleted, or expired, since; kept where older progress elsewhere must not count again.
    sa.Column("is_ended", sa.Boolean, nullable=False, server_default=sa.false()),
    # `committed_at_ms` is the time by which commits are ordered; this is the broker's.
    sa.Column("broker_ms", sa.BigInteger),
    # Offset of its record in the partition of `__consumer_offsets` of that Kafka cluster; NULL: not known.
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

# How far `__consumer_offsets` of each cluster was read, and its results written down.
commit_log_positions = sa.Table(
    "commit_log_positions",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # Another cluster at the same address has another log.
    sa.Column("kafka_cluster_id", sa.Text, nullable=False),
    # {partition: next offset}
    sa.Column("positions", JSONB, nullable=False),
)

# What a cluster's committer has done about groups whose newest progress was made elsewhere.
applied_offsets = sa.Table(
    "applied_offsets",
    METADATA,
    *_place(),
    sa.Column("group", sa.Text, primary_key=True),
    sa.Column("technical_group", sa.Text, nullable=False),
    # applied, has-members (the group is at work there and is left alone), waiting, failed; all but the first with
    # the reason.
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    # Whose progress, and which: its order.
    sa.Column("origin_cluster", sa.Text, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("committed_at_ms", sa.BigInteger, nullable=False),
    # Tells what was known of it: `domain/offset_map.py`, Progress.
    sa.Column("progress_digest", sa.Text),
    # The rest is of the offset set last; NULL if none was.
    sa.Column("offset", sa.BigInteger),
    sa.Column("mode", sa.Text),
    # NULL: nobody can tell.
    sa.Column("re_read_bound", sa.BigInteger),
    # Whether the cluster has all that the group has read; if not, the offset rises as the rest arrives.
    sa.Column("settled", sa.Boolean),
    sa.Column("applied_at_ms", sa.BigInteger),
    # Of the newest records of the cluster's log when it was set.
    sa.Column("incarnation", sa.BigInteger),
    # Time of the progress for which it was set: the columns above are of the newest that is known.
    sa.Column("set_for_ms", sa.BigInteger),
    sa.Index("applied_offsets_origin", "origin_cluster", "stream", "partition", "group"),
)

TABLES = (log_marks, group_commits, groups_not_followed, commit_log_positions, applied_offsets)
