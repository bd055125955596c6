"""Read model of the streams and of their topics on every cluster.

A row of `stream_topics` exists from the first thing recorded about a topic until the topic is gone. `removing`
marks topics of deleted streams; a stream's living topics are those of its row in `streams`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.cluster import ClusterRemoved
from backend.domain.tenant import (
    StreamApplied,
    StreamApplyFailed,
    StreamChanged,
    StreamDeclared,
    StreamDeleted,
    StreamRemoved,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import as_of, change, current, replace, temporal_table

streams = temporal_table(
    "streams",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("environment", sa.Text, primary_key=True),
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("partitions", sa.Integer, nullable=False),
    sa.Column("replication_factor", sa.Integer, nullable=False),
    sa.Column("min_insync_replicas", sa.Integer, nullable=False),
    sa.Column("retention_ms", sa.BigInteger, nullable=False),
    sa.Column("cleanup_policy", sa.Text, nullable=False),
    sa.Column("distributed", sa.Boolean, nullable=False),
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
)
STREAM = ("tenant", "instance", "environment", "stream")
_NO_TOPIC: dict[str, Any] = {
    "state": "pending",
    "failure": None,
    "topic_id": None,
    "incarnation": 0,
    "replication_factor": None,
    "removing": False,
}


def _apply(connection: Connection, recorded: RecordedEvent) -> None:
    event, position = recorded.event, recorded.position
    if isinstance(event, ClusterRemoved):
        _forget_cluster(connection, recorded.stream.removeprefix("cluster-"), position)
        return
    fields = vars(event)
    key = {name: fields[name] for name in STREAM}
    match event:
        case StreamDeclared() | StreamChanged():
            values = {name: value for name, value in fields.items() if name not in STREAM}
            replace(connection, streams, key, {**values, "version": recorded.version}, position)
            for topic in _topics(connection, key):
                if not topic["removing"]:
                    change(
                        connection,
                        stream_topics,
                        _topic_key(topic),
                        {"state": "pending", "failure": None},
                        position,
                    )
        case StreamDeleted():
            replace(connection, streams, key, None, position)
            _remove_topics(connection, key, position)
        case StreamApplied():
            values = {
                "state": "applied",
                "failure": None,
                "topic_id": event.topic_id,
                "incarnation": event.incarnation,
                "replication_factor": event.replication_factor,
                "removing": current(connection, streams, key) is None,
            }
            replace(connection, stream_topics, {**key, "cluster": event.cluster}, values, position)
        case StreamApplyFailed():
            key["cluster"] = event.cluster
            present = current(connection, stream_topics, key) or _NO_TOPIC
            values = {**{name: present[name] for name in _NO_TOPIC}, "state": "failed", "failure": event.reason}
            replace(connection, stream_topics, key, values, position)
        case StreamRemoved():
            replace(connection, stream_topics, {**key, "cluster": event.cluster}, None, position)


def _topic_key(topic: dict[str, Any]) -> dict[str, Any]:
    return {name: topic[name] for name in (*STREAM, "cluster")}


def _remove_topics(connection: Connection, key: dict[str, Any], position: int) -> None:
    for topic in _topics(connection, key):
        if topic["topic_id"] is None:
            replace(connection, stream_topics, _topic_key(topic), None, position)
        else:
            changes = {"state": "pending", "failure": None, "removing": True}
            change(connection, stream_topics, _topic_key(topic), changes, position)


def _forget_cluster(connection: Connection, cluster: str, position: int) -> None:
    for topic in _topics(connection, {"cluster": cluster}):
        replace(connection, stream_topics, _topic_key(topic), None, position)


def _topics(connection: Connection, key: dict[str, Any]) -> list[dict[str, Any]]:
    matches = (stream_topics.c[name] == value for name, value in key.items())
    rows = connection.execute(sa.select(stream_topics).where(as_of(stream_topics, None), *matches))
    return [dict(row) for row in rows.mappings()]


PROJECTION = Projection(
    name="streams",
    events=frozenset(
        {
            StreamDeclared,
            StreamChanged,
            StreamDeleted,
            StreamApplied,
            StreamApplyFailed,
            StreamRemoved,
            ClusterRemoved,
        }
    ),
    tables=(streams, stream_topics),
    apply=_apply,
)
