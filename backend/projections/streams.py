"""Projection of the streams and of their topics on every cluster.

A row of `stream_topics` exists from the first record about a topic until the topic is gone. `removing` marks
topics of deleted streams; a stream's living topics are those of its row in `streams`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.clusters.cluster import ClusterRemoved
from backend.domain.records.incarnations import truncated
from backend.domain.tenants.stream import (
    StreamApplied,
    StreamApplyFailed,
    StreamChanged,
    StreamDeclared,
    StreamDeleted,
    StreamDrifted,
    StreamRemoved,
    StreamTailLost,
    StreamTopicKept,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import POSITIONS, Rows, change, current, open_rows, replace, temporal_table

streams = temporal_table(
    "streams",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("environment", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("partitions", sa.Integer, nullable=False),
    # NULL, as in the next column: each cluster's default.
    sa.Column("replication_factor", sa.Integer),
    sa.Column("min_insync_replicas", sa.Integer),
    sa.Column("retention_ms", sa.BigInteger, nullable=False),
    sa.Column("cleanup_policy", sa.Text, nullable=False),
    sa.Column("max_message_bytes", sa.Integer, nullable=False),
    sa.Column("distributed", sa.Boolean, nullable=False),
    # Other declared settings of Kafka: {name: value}.
    sa.Column("config", JSONB, nullable=False),
    # Settings that were declared before and must return to the clusters' defaults.
    sa.Column("released", JSONB, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
stream_topics = temporal_table(
    "stream_topics",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("environment", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("failure", sa.Text),
    sa.Column("topic_id", sa.Text),
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("replication_factor", sa.Integer),
    sa.Column("removing", sa.Boolean, nullable=False),
    # True: remove the topic only if it is empty, as nobody confirmed the loss of records.
    sa.Column("unconfirmed", sa.Boolean, nullable=False),
    # {partition: [[offset, incarnation], ...]} of the partitions that lost a tail.
    sa.Column("tails", JSONB, nullable=False),
)
# Pages count a cluster's topics by their states.
sa.Index(
    "stream_topics_of_cluster",
    stream_topics.c.cluster,
    stream_topics.c.state,
    postgresql_where=sa.text("valid_to IS NULL AND NOT removing"),
)
# Of all rows ever applied, those changed last, failed and to be removed are found by these indexes.
for _table in (streams, stream_topics):
    for _bound in POSITIONS:
        sa.Index(f"{_table.name}_{_bound}", _table.c[_bound])
for _name, _condition in (("failed", "failure IS NOT NULL"), ("going", "removing")):
    sa.Index(
        f"stream_topics_{_name}",
        stream_topics.c.cluster,
        postgresql_where=sa.text(f"valid_to IS NULL AND {_condition}"),
    )
STREAM = ("tenant", "instance", "environment", "stream")
_NO_TOPIC: dict[str, Any] = {
    "state": "pending",
    "failure": None,
    "topic_id": None,
    "incarnation": 0,
    "replication_factor": None,
    "removing": False,
    "unconfirmed": False,
    "tails": {},
}


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    event, position = recorded.event, recorded.position
    if isinstance(event, ClusterRemoved):
        _forget_cluster(rows, recorded.stream.removeprefix("cluster-"), position)
        return
    fields = vars(event)
    key = {name: fields[name] for name in STREAM}
    match event:
        case StreamDeclared() | StreamChanged():
            values = {name: value for name, value in fields.items() if name not in STREAM}
            values |= {"released": _released(rows, key, event), "version": recorded.version}
            replace(rows, streams, key, values, position)
            for topic in open_rows(rows, stream_topics, key):
                if not topic["removing"]:
                    changes = {"state": "pending", "failure": None}
                    change(rows, stream_topics, _topic_key(topic), changes, position)
        case StreamDeleted():
            replace(rows, streams, key, None, position)
            _remove_topics(rows, key, position, unconfirmed=not event.confirmed)
        case StreamApplied():
            key["cluster"] = event.cluster
            present = current(rows, stream_topics, key) or _NO_TOPIC
            # Recorded late, for a stream that is deleted by now: nobody can have checked it for records before.
            is_late = current(rows, streams, {name: fields[name] for name in STREAM}) is None
            values = {
                "state": "applied",
                "failure": None,
                "topic_id": event.topic_id,
                "incarnation": event.incarnation,
                "replication_factor": event.replication_factor,
                "removing": is_late,
                "unconfirmed": is_late,
                "tails": present["tails"] if present["topic_id"] == event.topic_id else {},
            }
            replace(rows, stream_topics, key, values, position)
        case StreamApplyFailed():
            key["cluster"] = event.cluster
            present = current(rows, stream_topics, key) or _NO_TOPIC
            values = {**{name: present[name] for name in _NO_TOPIC}, "state": "failed", "failure": event.reason}
            replace(rows, stream_topics, key, values, position)
        case StreamDrifted():
            change(rows, stream_topics, {**key, "cluster": event.cluster}, {"failure": event.reason}, position)
        case StreamRemoved() | StreamTopicKept():
            replace(rows, stream_topics, {**key, "cluster": event.cluster}, None, position)
        case StreamTailLost():
            key["cluster"] = event.cluster
            _cut_off(rows, key, event, position)


def _released(rows: Rows, key: dict[str, Any], event: StreamDeclared | StreamChanged) -> list[str]:
    """Return settings that were declared and no longer are, as far as a topic may still have them."""
    before = current(rows, streams, key)
    if before is None:
        return []
    topics = open_rows(rows, stream_topics, key)
    settled = all(topic["state"] == "applied" for topic in topics)
    names = set(before["config"]) | (set() if settled else set(before["released"]))
    return sorted(names - set(event.config))


def _cut_off(rows: Rows, key: dict[str, Any], event: StreamTailLost, position: int) -> None:
    topic = current(rows, stream_topics, key)
    if topic is not None:
        partition = str(event.partition)
        known = topic["tails"].get(partition, [(0, topic["incarnation"])])
        before = tuple((offset, incarnation) for offset, incarnation in known)
        incarnations = truncated(before, event.first_offset, event.incarnation)
        tails = {**topic["tails"], partition: [list(each) for each in incarnations]}
        change(rows, stream_topics, key, {"tails": tails}, position)


def _topic_key(topic: dict[str, Any]) -> dict[str, Any]:
    return {name: topic[name] for name in (*STREAM, "cluster")}


def _remove_topics(rows: Rows, key: dict[str, Any], position: int, *, unconfirmed: bool) -> None:
    for topic in open_rows(rows, stream_topics, key):
        if topic["topic_id"] is None:
            replace(rows, stream_topics, _topic_key(topic), None, position)
        else:
            changes = {"state": "pending", "failure": None, "removing": True, "unconfirmed": unconfirmed}
            change(rows, stream_topics, _topic_key(topic), changes, position)


def _forget_cluster(rows: Rows, cluster: str, position: int) -> None:
    for topic in open_rows(rows, stream_topics, {"cluster": cluster}):
        replace(rows, stream_topics, _topic_key(topic), None, position)


PROJECTION = Projection(
    name="streams",
    events=frozenset(
        {
            StreamDeclared,
            StreamChanged,
            StreamDeleted,
            StreamApplied,
            StreamApplyFailed,
            StreamDrifted,
            StreamRemoved,
            StreamTopicKept,
            StreamTailLost,
            ClusterRemoved,
        }
    ),
    tables=(streams, stream_topics),
    apply=_apply,
)
