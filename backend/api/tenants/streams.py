"""`/tenants/{t}/instances/{i}/environments/{e}/streams`: streams that tenants declare, and their applied state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import (
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
from backend.api.tenants.tenants import ENVIRONMENT
from backend.changes import streams as changes
from backend.changes.tenants import TenantChange
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action, may
from backend.domain.names.names import StreamName
from backend.domain.topics import stream_settings, topic_settings
from backend.domain.topics.stream_settings import CLUSTER_DEFAULT, StreamSettings
from backend.queries.tenants import streams as queries
from backend.queries.tenants.streams import StreamRow
from backend.queries.tenants.tenants import find_environment
from backend.queries.topics.stream_replication import stream_replication
from backend.queries.topics.topic_drift import stream_drift

MOST_AT_ONCE = 200
"""Most streams of one request: commands run one after another, and this one takes some hundred ms."""


def _number_or_default(value: object) -> object:
    """Accept a number, `default` or null; with a union of types, errors would point at each of them."""
    if value is None or value == CLUSTER_DEFAULT or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"must be a whole number, or {CLUSTER_DEFAULT}")


Replicas = Annotated[
    int | Literal["default"] | None,
    PlainValidator(_number_or_default),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"const": CLUSTER_DEFAULT}, {"type": "null"}]}),
]
_DEFAULTS = "Left out, null or `default`: each cluster's default."
MOST_SETTINGS = 100
"""Most settings of a stream's `config`; Kafka knows some thirty."""


def _as_kafka_writes(value: object) -> object:
    return topic_settings.text_of(value) if isinstance(value, bool | int | float) else value


router = APIRouter(
    prefix=f"/tenants{ENVIRONMENT}/streams", tags=["streams"], dependencies=[Depends(plausible_names)]
)


TopicConfig = Annotated[
    dict[str, Annotated[str, BeforeValidator(_as_kafka_writes)]],
    Field(
        description="Other topic settings by Kafka's names, such as compression.type; numbers and true or false "
        "may be given as such. Settings that a field of the stream manages are refused.",
        max_length=MOST_SETTINGS,
    ),
]


class NewStream(Body):
    """A stream to declare; its topics are created on every cluster of the tree."""

    name: str
    partitions: int = 1
    replication_factor: Replicas = Field(None, description=_DEFAULTS)
    min_insync_replicas: Replicas = Field(None, description=_DEFAULTS)
    retention_ms: int = stream_settings.DEFAULT_RETENTION_MS
    cleanup_policy: str = "delete"
    max_message_bytes: int = stream_settings.DEFAULT_MAX_MESSAGE_BYTES
    distributed: bool = True
    config: TopicConfig = Field(default_factory=dict)


class NewStreams(Body):
    """Streams to declare, all or none."""

    streams: list[NewStream] = Field(min_length=1, max_length=MOST_AT_ONCE)


class StreamChanges(Body):
    """Changes of a stream; fields left out, or null, stay. Partitions can only be increased."""

    partitions: int | None = None
    replication_factor: Replicas = None
    min_insync_replicas: Replicas = None
    retention_ms: int | None = None
    cleanup_policy: str | None = None
    max_message_bytes: int | None = None
    distributed: bool | None = None
    config: TopicConfig | None = Field(
        None, description="Replaces all of them: one that is left out goes back to each cluster's default."
    )


@dataclass(frozen=True)
class Place:
    """The environment that a path names."""

    tenant: str
    instance: str
    environment: str

    def stream(self, name: str) -> StreamName:
        return StreamName(self.tenant, self.instance, self.environment, name)

    def find(self, connection: Connection, name: str, at: int | None = None) -> StreamRow:
        """Return the stream, or raise NotFound naming what is missing."""
        return queries.find_stream(connection, self.stream(name), at)


In = Annotated[Place, Depends(Place)]


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def list_streams(place: In, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List an environment's streams, by name."""
    find_environment(connection, place.tenant, place.instance, place.environment, at)
    after = None if page.after is None else str(page.after)
    rows = queries.list_streams(
        connection, at, place.tenant, place.instance, place.environment, after=after, limit=page.limit + 1
    )
    return listed(rows, page, lambda row: row.name, shown)


@router.post("", status_code=201, openapi_extra=needs(Action.DECLARE_STREAMS))
def declare_stream(place: In, body: NewStream, write: Writing) -> Response:
    """Declare a stream; its topics are created asynchronously."""
    change = changes.declare_stream(place.stream(body.name), _settings(body))

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        where = f"instances/{place.instance}/environments/{place.environment}/streams/{body.name}"
        headers = {"Location": f"/api/v1/tenants/{place.tenant}/{where}", "ETag": etag(outcome.version)}
        return Answer(201, shown(place.find(connection, body.name)), headers)

    return write.carry_out(change, answer)


@router.post(":declare", status_code=201, openapi_extra=needs(Action.DECLARE_STREAMS))
def declare_streams(place: In, body: NewStreams, write: Writing) -> Response:
    """Declare several streams at once, all or none; their topics are created asynchronously."""
    wanted = [(each.name, _settings(each)) for each in body.streams]
    change = changes.declare_streams(place.tenant, place.instance, place.environment, wanted)

    def answer(connection: Connection, _: Outcome) -> Answer:
        rows = queries.list_streams(
            connection, None, place.tenant, place.instance, place.environment, names=[name for name, _ in wanted]
        )
        return Answer(201, {"items": [shown(row) for row in rows]})

    return write.carry_out(change, answer)


@router.get("/{stream}", openapi_extra=needs(Action.READ_TENANT))
def get_stream(place: In, stream: str, connection: Reading, at: At) -> Response:
    """Show one stream, with the replication of its topics.

    The response includes the current replicas, the durability with acks=all on each cluster, and topic settings
    that differ between clusters.
    """
    row = place.find(connection, stream, at)
    seen: dict[str, Any] = {"replication": None, "drift": None}
    if at is None:
        drift = [asdict(each) for each in stream_drift(connection, row)]
        seen = {"replication": _replication(connection, row), "drift": drift}
    return shown_at(row.version, {**shown(row), **seen})


@router.patch("/{stream}", openapi_extra=needs(Action.DECLARE_STREAMS))
def change_stream(
    place: In,
    stream: str,
    body: StreamChanges,
    write: Writing,
    services: SharedServices,
    caller: Asking,
    confirm: Annotated[
        str | None, Query(description="STREAM in full; required if the change removes records.")
    ] = None,
) -> Response:
    """Change a stream's settings; they are applied to its topics asynchronously.

    A change that makes Kafka remove records (a shorter retention, compaction) needs the permission to delete the
    stream, too.
    """
    name, wished = place.stream(stream), body.model_dump()
    confirmed = confirm if may(caller, Action.MANAGE_TENANT, name.tenant) else None

    def change(held: tuple[str, ...] | None) -> TenantChange:
        return changes.change_stream(name, wished, write.match, confirm=confirmed, clusters_with_records=held)

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = place.find(connection, stream)
        return Answer(200, shown(row), {"ETag": etag(row.version)})

    with services.reading() as connection:
        rows = queries.list_streams(
            connection, None, place.tenant, place.instance, place.environment, names=[stream]
        )
    # The command reports a missing stream, unless this request is a repeat that was answered before.
    if not any(changes.records_removed_by(row, wished) for row in rows):
        return write.carry_out(change(None), answer)
    rehearsed = change(())
    first = write.rehearse(rehearsed.decider, rehearsed.stream, rehearsed.build)
    if first is not None:
        return first
    seconds = services.config.probe_timeout_seconds
    held = changes.find_clusters_with_records(services.reading, caller, name, confirmed, seconds)
    return write.carry_out(change(held), answer)


@router.delete("/{stream}", status_code=204, openapi_extra=needs(Action.MANAGE_TENANT))
def delete_stream(
    place: In,
    stream: str,
    write: Writing,
    services: SharedServices,
    confirm: Annotated[
        str | None, Query(description="STREAM in full; required if the stream has records.")
    ] = None,
) -> Response:
    """Delete a stream and, asynchronously, its topics on all clusters."""
    name = place.stream(stream)
    change = changes.delete_stream(name, confirm=confirm, match=write.match)
    if confirm is None:
        first = write.rehearse(change.decider, change.stream, change.build)
        if first is not None:
            return first
        held = changes.clusters_holding(services.reading, name, services.config.probe_timeout_seconds)
        change = changes.delete_stream(name, confirm=None, clusters_with_records=held, match=write.match)
    return write.carry_out(change, lambda connection, _: Answer(204, None))


def _settings(body: NewStream) -> StreamSettings:
    given: dict[str, Any] = body.model_dump(exclude={"name"})
    found: dict[str, Any] = {name: None if value == CLUSTER_DEFAULT else value for name, value in given.items()}
    return StreamSettings(**found)


def _replication(connection: Connection, row: StreamRow) -> dict[str, Any]:
    seen = stream_replication(connection, row)
    return {cluster: {**asdict(each), "advice": each.advice} for cluster, each in seen.items()}


def shown(row: StreamRow) -> dict[str, Any]:
    """Return a stream as responses show it."""
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
        "config": row.config,
        "technical_names": row.technical_names,
        "applied": row.applied,
        "failures": row.failures,
        "incarnations": row.incarnations,
        "under_provisioned": row.under_provisioned,
        "replicas": {
            cluster: {"replication_factor": factor, "min_insync_replicas": minimum}
            for cluster, (factor, minimum) in row.expected.items()
        },
        "position": row.position,
    }
