"""Changes of streams. Their topics follow on every cluster of the tree, asynchronously."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.changes.tenants import TenantChange, event_stream
from backend.deciders import TENANT
from backend.domain.access.access import Action, Caller, refusal
from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName
from backend.domain.tenants.tenant_commands import ChangeStream, DeclareStream, DeclareStreams, DeleteStream
from backend.domain.topics.stream_settings import StreamSettings, removed_by
from backend.kafka.copy.records import TopicPlace, clusters_with_records
from backend.queries.base.naming import taken_by_others, taken_names
from backend.queries.clusters.clusters import list_clusters
from backend.queries.tenants.streams import StreamRow, clusters_with_topic, find_stream
from backend.queries.tenants.tenants import get_instance


def declare_stream(stream: StreamName, settings: StreamSettings) -> TenantChange:
    """Declare a stream."""

    def build(connection: Connection) -> DeclareStream:
        instance = get_instance(connection, stream.tenant, stream.instance)
        taken = taken_by_others(connection, instance.tree if instance else "", stream)
        return DeclareStream(
            instance=stream.instance,
            environment=stream.environment,
            stream=stream.stream,
            settings=settings,
            clusters=taken.clusters,
            taken_topics=taken.topics,
            taken_subjects=taken.subjects,
        )

    return Change(TENANT, event_stream(stream.tenant), build)


def declare_streams(
    tenant: str, instance: str, environment: str, streams: Sequence[tuple[str, StreamSettings]]
) -> TenantChange:
    """Declare several streams of one environment, all or none."""

    def build(connection: Connection) -> DeclareStreams:
        found = get_instance(connection, tenant, instance)
        taken = taken_names(connection, found.tree if found else "")
        return DeclareStreams(
            instance=instance,
            environment=environment,
            streams=streams,
            clusters=taken.clusters,
            taken_topics=taken.topics,
            taken_subjects=taken.subjects,
        )

    return Change(TENANT, event_stream(tenant), build)


def change_stream(
    stream: StreamName,
    wished: Mapping[str, Any],
    match: Match = any_version,
    *,
    confirm: str | None = None,
    clusters_with_records: tuple[str, ...] | None = None,
) -> TenantChange:
    """Change settings of a stream; `wished` holds the `StreamSettings` to change, None keeps one.

    A change after which Kafka removes records needs `clusters_with_records`, or STREAM as `confirm`.
    """

    def build(connection: Connection) -> ChangeStream:
        match(find_stream(connection, stream).version)
        return ChangeStream(
            instance=stream.instance,
            environment=stream.environment,
            stream=stream.stream,
            clusters_with_records=clusters_with_records,
            confirm=confirm,
            **wished,
        )

    return Change(TENANT, event_stream(stream.tenant), build)


def delete_stream(
    stream: StreamName,
    *,
    confirm: str | None,
    clusters_with_records: tuple[str, ...] = (),
    match: Match = any_version,
) -> TenantChange:
    """Delete a stream and its topics; `confirm` is STREAM, required if any topic has records."""

    def build(connection: Connection) -> DeleteStream:
        match(find_stream(connection, stream).version)
        return DeleteStream(
            instance=stream.instance,
            environment=stream.environment,
            stream=stream.stream,
            clusters_with_records=clusters_with_records,
            confirm=confirm,
        )

    return Change(TENANT, event_stream(stream.tenant), build)


def clusters_holding(
    reading: Callable[[], AbstractContextManager[Connection]], stream: StreamName, timeout_seconds: float
) -> tuple[str, ...]:
    """Return the clusters where a stream's topic has records or did not respond within `timeout_seconds`.

    Raises NotFound.
    """
    with reading() as connection:
        places = topic_locations(connection, find_stream(connection, stream))
    return clusters_with_records(places, timeout_seconds)


def find_clusters_with_records(
    reading: Callable[[], AbstractContextManager[Connection]],
    caller: Caller,
    stream: StreamName,
    confirm: str | None,
    timeout_seconds: float,
) -> tuple[str, ...] | None:
    """Return what `change_stream` gets as `clusters_with_records`: None if the caller has confirmed the removal.

    Only a caller who may delete the stream can confirm. Raises NotAllowed if another's change would remove
    records.
    """
    refused = refusal(caller, Action.MANAGE_TENANT, stream.tenant)
    if confirm is not None and refused is None:
        return None
    held = clusters_holding(reading, stream, timeout_seconds)
    if held and refused is not None:
        raise refused
    return held


def records_removed_by(row: StreamRow, wished: Mapping[str, Any]) -> str:
    """Describe which records a change of settings makes Kafka remove; "" if none."""
    return removed_by(row.settings, replace(row.settings, **{k: v for k, v in wished.items() if v is not None}))


def topic_locations(connection: Connection, row: StreamRow) -> list[TopicPlace]:
    """Return every place where a stream's topic may exist that its deletion has to remove.

    That is wherever a topic is recorded, also on clusters that left the tree, and on the tree's other clusters,
    where one may have been created a moment ago.
    """
    name = StreamName(row.tenant, row.instance, row.environment, row.name)
    recorded = clusters_with_topic(connection, name)
    return [
        TopicPlace(
            cluster.name,
            cluster.bootstrap_servers,
            cluster.properties,
            technical_name(cluster.topic_format, name),
            cluster.name in recorded,
        )
        for cluster in list_clusters(connection)
        if cluster.name in recorded or cluster.name in row.technical_names
    ]
