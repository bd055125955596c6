"""`/tenants/{t}/instances/{i}/environments/{e}/streams`: what tenants declare, and where it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.api.access import needs
from backend.api.requests import (
    At,
    Body,
    Paging,
    Reading,
    SharedServices,
    Writing,
    etag,
    listed,
    plausible_names,
    shown_at,
)
from backend.api.tenants import ENVIRONMENT, find_environment
from backend.deciders import TENANT
from backend.dispatch import Answer, Outcome
from backend.domain import stream_settings
from backend.domain.access import Action
from backend.domain.errors import NotFound
from backend.domain.names import StreamName
from backend.domain.stream_settings import StreamSettings
from backend.domain.tenant_commands import ChangeStream, DeclareStream, DeleteStream
from backend.kafka.records import TopicPlace, clusters_with_records
from backend.queries import streams as queries
from backend.queries.clusters import list_clusters
from backend.queries.naming import taken_by_others
from backend.queries.streams import StreamRow
from backend.queries.tenants import get_instance

router = APIRouter(
    prefix=f"/tenants{ENVIRONMENT}/streams", tags=["streams"], dependencies=[Depends(plausible_names)]
)


class NewStream(Body):
    """A stream to declare; its topics follow on every cluster of the tree."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    min_insync_replicas: int = 1
    retention_ms: int = stream_settings.DEFAULT_RETENTION_MS
    cleanup_policy: str = "delete"
    max_message_bytes: int = stream_settings.DEFAULT_MAX_MESSAGE_BYTES
    distributed: bool = True


class StreamChanges(Body):
    """What is to change; fields left out, or null, stay. Partitions can only grow."""

    partitions: int | None = None
    replication_factor: int | None = None
    min_insync_replicas: int | None = None
    retention_ms: int | None = None
    cleanup_policy: str | None = None
    max_message_bytes: int | None = None
    distributed: bool | None = None


@dataclass(frozen=True)
class Place:
    """The environment that a path names."""

    tenant: str
    instance: str
    environment: str

    @property
    def event_stream(self) -> str:
        return f"tenant-{self.tenant}"

    def stream(self, name: str) -> StreamName:
        return StreamName(self.tenant, self.instance, self.environment, name)

    def find(self, connection: Connection, name: str, at: int | None = None) -> StreamRow:
        """The stream, or NotFound naming what is missing."""
        find_environment(connection, self.tenant, self.instance, self.environment, at)
        row = queries.get_stream(connection, self.tenant, self.instance, self.environment, name, at)
        if row is None:
            raise NotFound(f"there is no stream {self.stream(name)}")
        return row


In = Annotated[Place, Depends(Place)]


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def list_streams(place: In, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """An environment's streams, by name."""
    find_environment(connection, place.tenant, place.instance, place.environment, at)
    after = None if page.after is None else str(page.after)
    rows = queries.list_streams(
        connection, at, place.tenant, place.instance, place.environment, after=after, limit=page.limit + 1
    )
    return listed(rows, page, lambda row: row.name, shown)


@router.post("", status_code=201, openapi_extra=needs(Action.DECLARE_STREAMS))
def declare_stream(place: In, body: NewStream, write: Writing) -> Response:
    """Declare a stream; its topics follow asynchronously."""

    def build(connection: Connection) -> DeclareStream:
        instance = get_instance(connection, place.tenant, place.instance)
        tree = instance.tree if instance else ""
        taken = taken_by_others(connection, tree, place.stream(body.name))
        return DeclareStream(
            instance=place.instance,
            environment=place.environment,
            stream=body.name,
            settings=StreamSettings(**body.model_dump(exclude={"name"})),
            clusters=taken.clusters,
            taken_topics=taken.topics,
            taken_subjects=taken.subjects,
        )

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        where = f"instances/{place.instance}/environments/{place.environment}/streams/{body.name}"
        headers = {"Location": f"/api/v1/tenants/{place.tenant}/{where}", "ETag": etag(outcome.version)}
        return Answer(201, shown(place.find(connection, body.name)), headers)

    return write.run(TENANT, place.event_stream, build, answer)


@router.get("/{stream}", openapi_extra=needs(Action.READ_TENANT))
def get_stream(place: In, stream: str, connection: Reading, at: At) -> Response:
    """One stream."""
    row = place.find(connection, stream, at)
    return shown_at(row.version, shown(row))


@router.patch("/{stream}", openapi_extra=needs(Action.DECLARE_STREAMS))
def change_stream(place: In, stream: str, body: StreamChanges, write: Writing) -> Response:
    """Change a stream's settings; they are applied to its topics asynchronously."""

    def build(connection: Connection) -> ChangeStream:
        write.match(place.find(connection, stream).version)
        return ChangeStream(
            instance=place.instance, environment=place.environment, stream=stream, **body.model_dump()
        )

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = place.find(connection, stream)
        return Answer(200, shown(row), {"ETag": etag(row.version)})

    return write.run(TENANT, place.event_stream, build, answer)


@router.delete("/{stream}", status_code=204, openapi_extra=needs(Action.MANAGE_TENANT))
def delete_stream(
    place: In,
    stream: str,
    write: Writing,
    services: SharedServices,
    confirm: Annotated[str | None, Query(description="STREAM in full; needed if it has records.")] = None,
) -> Response:
    """Delete a stream and, asynchronously, its topics on all clusters."""
    with_records: tuple[str, ...] = ()

    def build(connection: Connection) -> DeleteStream:
        write.match(place.find(connection, stream).version)
        return DeleteStream(
            instance=place.instance,
            environment=place.environment,
            stream=stream,
            clusters_with_records=with_records,
            confirm=confirm,
        )

    if confirm is None:
        first = write.rehearse(TENANT, place.event_stream, build)
        if first is not None:
            return first
        with services.reading() as connection:
            places = _topic_places(connection, place.find(connection, stream))
        with_records = clusters_with_records(places, services.config.probe_timeout_seconds)
    return write.run(TENANT, place.event_stream, build, lambda connection, _: Answer(204, None))


def shown(row: StreamRow) -> dict[str, Any]:
    """A stream as answers show it."""
    return {
        "name": row.name,
        "stream": row.stream,
        "tenant": row.tenant,
        "instance": row.instance,
        "environment": row.environment,
        "partitions": row.partitions,
        "replication_factor": row.replication_factor,
        "min_insync_replicas": row.min_insync_replicas,
        "retention_ms": row.retention_ms,
        "cleanup_policy": row.cleanup_policy,
        "max_message_bytes": row.max_message_bytes,
        "distributed": row.distributed,
        "technical_names": row.technical_names,
        "applied": row.applied,
        "failures": row.failures,
        "incarnations": row.incarnations,
        "under_provisioned": row.under_provisioned,
        "position": row.position,
    }


def _topic_places(connection: Connection, row: StreamRow) -> list[TopicPlace]:
    return [
        TopicPlace(cluster.name, cluster.bootstrap_servers, cluster.properties, row.technical_names[cluster.name])
        for cluster in list_clusters(connection)
        if cluster.name in row.topic_ids
    ]
