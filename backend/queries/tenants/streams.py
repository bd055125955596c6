"""Read streams with their technical names and applied state, now or as of a position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Table

from backend.domain.base.errors import NotFound
from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName
from backend.domain.records.incarnations import Incarnations
from backend.domain.topics.replica_defaults import Replicas, replicas_for
from backend.domain.topics.stream_settings import StreamSettings
from backend.projections.streams import STREAM, stream_topics, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.queries.clusters.clusters import ClusterRow, leaves_by_tree, list_clusters
from backend.queries.tenants.tenants import find_environment

_Scope = Mapping[str, str | Collection[str] | None]
"""Part of a stream's name -> the required value, one of several, or None for any."""


@dataclass(frozen=True)
class StreamRow:
    """A stream; the keys of the mappings are the clusters of its instance's tree.

    `stream` is STREAM in full, `name` its last part. `applied` is pending, applied or failed, with the reason in
    `failures` (an applied one has a reason if its topic drifted and could not be set back). `incarnations`,
    `topic_ids`, `factors` (the replicas that the topic has) and `tails` (incarnations in the partitions that lost
    a tail) have only clusters where a topic is recorded. `replicas`: what its topic should have on each, by the
    declaration or the cluster's defaults. `expected`: the replication factor and min.insync.replicas that a new
    topic gets there, given the present brokers. `under_provisioned`: clusters with fewer brokers than the declared
    factor. `revision` counts declarations and changes.
    """

    stream: str
    tenant: str
    instance: str
    environment: str
    name: str
    tree: str
    revision: int
    partitions: int
    replication_factor: int | None
    min_insync_replicas: int | None
    retention_ms: int
    cleanup_policy: str
    max_message_bytes: int
    distributed: bool
    config: dict[str, str]
    released: list[str]
    replicas: dict[str, Replicas]
    expected: dict[str, tuple[int, int]]
    technical_names: dict[str, str]
    applied: dict[str, str]
    incarnations: dict[str, int]
    topic_ids: dict[str, str]
    factors: dict[str, int]
    tails: dict[str, dict[int, Incarnations]]
    under_provisioned: list[str]
    failures: dict[str, str]
    version: int
    position: int

    @property
    def settings(self) -> StreamSettings:
        """Return the settings that the stream declares."""
        return StreamSettings(**{field.name: getattr(self, field.name) for field in fields(StreamSettings)})


@dataclass(frozen=True)
class DeletedTopic:
    """A topic of a deleted stream that is pending deletion on a cluster."""

    stream: str
    tenant: str
    instance: str
    environment: str
    name: str
    cluster: str
    technical_name: str
    topic_id: str
    unconfirmed: bool
    """True if it is kept should it have records by now."""


def list_streams(
    connection: Connection,
    at: int | None = None,
    tenant: str | None = None,
    instance: str | None = None,
    environment: str | None = None,
    *,
    names: Collection[str] | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[StreamRow]:
    """Return the streams of all tenants, or of one tenant, instance, environment, by name.

    `names`, `after` and `limit` choose by `name`, so they make sense within one environment.
    """
    scope = {"tenant": tenant, "instance": instance, "environment": environment, "stream": names}
    query = (
        sa.select(streams, instances.c.tree)
        .join(
            instances,
            sa.and_(
                instances.c.tenant == streams.c.tenant,
                instances.c.name == streams.c.instance,
                as_of(instances, at),
            ),
        )
        .where(as_of(streams, at), *_scoped(streams, scope))
        .order_by(*(streams.c[part] for part in STREAM))
        .limit(limit)
    )
    if after is not None:
        query = query.where(streams.c.stream > after)
    rows = connection.execute(query).all()
    leaves = leaves_by_tree(connection, at) if rows else {}
    topics = _topics(connection, at, scope) if rows else {}
    return [_stream(row, leaves.get(row.tree, ()), topics.get(_key(row), {})) for row in rows]


def get_stream(
    connection: Connection, tenant: str, instance: str, environment: str, name: str, at: int | None = None
) -> StreamRow | None:
    """Return one stream, or None."""
    return next(iter(list_streams(connection, at, tenant, instance, environment, names=(name,))), None)


def find_stream(connection: Connection, stream: StreamName, at: int | None = None) -> StreamRow:
    """Return the stream, or raise NotFound naming what is missing."""
    find_environment(connection, stream.tenant, stream.instance, stream.environment, at)
    row = get_stream(connection, stream.tenant, stream.instance, stream.environment, stream.stream, at)
    if row is None:
        raise NotFound(f"there is no stream {stream}")
    return row


def count_streams(
    connection: Connection, tenant: str | None = None, at: int | None = None
) -> dict[tuple[str, str, str], int]:
    """Count the streams of each environment that has any, by (tenant, instance, environment)."""
    place = (streams.c.tenant, streams.c.instance, streams.c.environment)
    query = sa.select(*place, sa.func.count()).where(as_of(streams, at), *_scoped(streams, {"tenant": tenant}))
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(query.group_by(*place))}


@dataclass(frozen=True)
class Topics:
    """Numbers of a cluster's stream topics in each state."""

    applied: int = 0
    pending: int = 0
    failed: int = 0


def topics_of_clusters(connection: Connection, only: str | None = None) -> dict[str, Topics]:
    """Count stream topics by state, per cluster or of one alone, as far as they have been observed."""
    t = stream_topics.c
    query = sa.select(t.cluster, t.state, sa.func.count()).where(as_of(stream_topics, None), ~t.removing)
    if only is not None:
        query = query.where(t.cluster == only)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for cluster, state, count in connection.execute(query.group_by(t.cluster, t.state)):
        found[cluster][state] = count
    return {cluster: Topics(**counts) for cluster, counts in found.items()}


def apply_failures(connection: Connection) -> dict[str, list[str]]:
    """Return, per cluster with any, the reasons why distributed streams are not as declared there."""
    same = sa.and_(*(stream_topics.c[part] == streams.c[part] for part in STREAM))
    query = (
        sa.select(stream_topics)
        .join(streams, sa.and_(same, as_of(streams, None)))
        .where(as_of(stream_topics, None), streams.c.distributed, stream_topics.c.failure.is_not(None))
        .order_by(*(stream_topics.c[part] for part in STREAM))
    )
    found: dict[str, list[str]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.cluster].append(f"{StreamName(*_key(row))} on {row.cluster}: {row.failure}")
    return dict(found)


def clusters_with_topic(connection: Connection, stream: StreamName) -> frozenset[str]:
    """Return clusters where a topic of the stream is recorded, in its tree or not."""
    same = _scoped(stream_topics, asdict(stream))
    query = sa.select(stream_topics.c.cluster).where(as_of(stream_topics, None), *same)
    return frozenset(connection.execute(query.where(stream_topics.c.topic_id.is_not(None))).scalars())


def list_deleted(connection: Connection) -> list[DeletedTopic]:
    """Return topics of deleted streams that workers have yet to delete, and to record with RecordRemoved."""
    clusters = {cluster.name: cluster for cluster in list_clusters(connection)}
    query = sa.select(stream_topics).where(as_of(stream_topics, None), stream_topics.c.removing)
    found = []
    for row in connection.execute(query.order_by(*(stream_topics.c[part] for part in (*STREAM, "cluster")))):
        name = StreamName(*_key(row))
        topic = technical_name(clusters[row.cluster].topic_format, name)
        found.append(DeletedTopic(str(name), *_key(row), row.cluster, topic, row.topic_id, row.unconfirmed))
    return found


def _stream(row: Row[Any], clusters: Sequence[ClusterRow], topics: Mapping[str, Row[Any]]) -> StreamRow:
    name = StreamName(*_key(row))
    names = [cluster.name for cluster in clusters]
    known = {cluster: topics[cluster] for cluster in names if cluster in topics and not topics[cluster].removing}
    recorded = {cluster: topic for cluster, topic in known.items() if topic.topic_id is not None}
    return StreamRow(
        stream=str(name),
        tenant=row.tenant,
        instance=row.instance,
        environment=row.environment,
        name=row.stream,
        tree=row.tree,
        revision=row.revision,
        partitions=row.partitions,
        replication_factor=row.replication_factor,
        min_insync_replicas=row.min_insync_replicas,
        retention_ms=row.retention_ms,
        cleanup_policy=row.cleanup_policy,
        max_message_bytes=row.max_message_bytes,
        distributed=row.distributed,
        config=row.config,
        released=row.released,
        replicas={
            cluster.name: replicas_for(row.replication_factor, row.min_insync_replicas, cluster.defaults)
            for cluster in clusters
        },
        expected=_expected(row, clusters),
        technical_names={cluster.name: technical_name(cluster.topic_format, name) for cluster in clusters},
        applied={cluster: known[cluster].state if cluster in known else "pending" for cluster in names},
        incarnations={cluster: topic.incarnation for cluster, topic in recorded.items()},
        topic_ids={cluster: topic.topic_id for cluster, topic in recorded.items()},
        factors={cluster: topic.replication_factor for cluster, topic in recorded.items()},
        tails={cluster: _tails(topic.tails) for cluster, topic in recorded.items()},
        under_provisioned=[
            cluster.name
            for cluster in clusters
            if cluster.brokers is not None
            and cluster.brokers < (row.replication_factor or cluster.defaults.replication_factor or 1)
        ],
        failures={cluster: topic.failure for cluster, topic in known.items() if topic.failure is not None},
        version=row.version,
        position=row.valid_from,
    )


def _expected(row: Row[Any], clusters: Sequence[ClusterRow]) -> dict[str, tuple[int, int]]:
    found = {}
    for cluster in clusters:
        wanted = replicas_for(row.replication_factor, row.min_insync_replicas, cluster.defaults)
        factor = wanted.factor if cluster.brokers is None else min(wanted.factor, max(cluster.brokers, 1))
        found[cluster.name] = factor, wanted.minimum_of(factor)
    return found


def _tails(kept: Mapping[str, Sequence[Sequence[int]]]) -> dict[int, Incarnations]:
    return {
        int(p): tuple((offset, incarnation) for offset, incarnation in incarnations)
        for p, incarnations in kept.items()
    }


def _topics(connection: Connection, at: int | None, scope: _Scope) -> dict[tuple[str, ...], dict[str, Row[Any]]]:
    topics: dict[tuple[str, ...], dict[str, Row[Any]]] = defaultdict(dict)
    query = sa.select(stream_topics).where(as_of(stream_topics, at), *_scoped(stream_topics, scope))
    for row in connection.execute(query):
        topics[_key(row)][row.cluster] = row
    return topics


def _scoped(table: Table, scope: _Scope) -> list[ColumnElement[bool]]:
    return [
        table.c[part] == value if isinstance(value, str) else table.c[part].in_(value)
        for part, value in scope.items()
        if value is not None
    ]


def _key(row: Row[Any]) -> tuple[str, str, str, str]:
    return row.tenant, row.instance, row.environment, row.stream
