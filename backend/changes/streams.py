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
    """Change settings of a stream; `wished` has those of `StreamSettings` that are to change, None keeps one.

    A change that has Kafka remove records wants to know which clusters have some, or STREAM as `confirm`.
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
    """Delete a stream and its topics; `confirm` is STREAM, needed if any topic has records."""

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
    """The clusters where a stream's topic has records, or where nobody could look, which takes `timeout_seconds`.

    Raises NotFound.
    """
    with reading() as connection:
        places = topic_places(connection, find_stream(connection, stream))
    return clusters_with_records(places, timeout_seconds)


def looked_for_records(
    reading: Callable[[], AbstractContextManager[Connection]],
    caller: Caller,
    stream: StreamName,
    confirm: str | None,
    timeout_seconds: float,
) -> tuple[str, ...] | None:
    """What `change_stream` is to know of clusters with records where it removes some: None, nothing, if somebody
    who may delete the stream has confirmed it. Raises NotAllowed if others would remove any."""
    refused = refusal(caller, Action.MANAGE_TENANT, stream.tenant)
    if confirm is not None and refused is None:
        return None
    held = clusters_holding(reading, stream, timeout_seconds)
    if held and refused is not None:
        raise refused
    return held


def removed_from(row: StreamRow, wished: Mapping[str, Any]) -> str:
    """Which records a change of settings has Kafka remove, in words; "": none."""
    return removed_by(row.settings, replace(row.settings, **{k: v for k, v in wished.items() if v is not None}))


def topic_places(connection: Connection, row: StreamRow) -> list[TopicPlace]:
    """Where topics of a stream may be that its deletion removes: wherever one is recorded, also on clusters that
    left the tree, and on the tree's others, where one may have been made a moment ago."""
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
