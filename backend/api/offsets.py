"""`/offsets`: what groups have committed, where they go on elsewhere, and setting a group's offsets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.access import Asking, check, needs
from backend.api.requests import Body, Page, Paging, Reading, Writing, listed, respond
from backend.deciders import GROUP_RESETS
from backend.dispatch import Answer, Outcome
from backend.domain.access import Action
from backend.domain.errors import FieldError, NameInvalid, NotFound, ValueInvalid
from backend.domain.group_reset import RecordReset
from backend.domain.names import StreamName, is_group_name, is_name
from backend.queries import clusters, offsets, streams
from backend.queries.offsets import NotFollowedRow, OffsetRow, Place
from backend.queries.streams import StreamRow
from backend.tracing.resetting import Wish, reset, wished_offsets

router = APIRouter(tags=["offsets"])


class Reset(Body):
    """Where a group is to go on."""

    cluster: str = Field(max_length=300, description="Where it is set; the other clusters follow.")
    stream: str = Field(max_length=1200, description="tenant/instance/environment/stream")
    group: str = Field(max_length=300, description="Its logical name.")
    partition: int | None = Field(None, ge=0, le=2**31 - 1, description="Every partition if left out.")
    to: str = Field(max_length=60, description="earliest, latest, an offset, or a time (ISO 8601).")


@router.get("/offsets", openapi_extra=needs(Action.READ_TENANT))
def list_offsets(
    connection: Reading,
    caller: Asking,
    page: Paging,
    cluster: Annotated[str | None, Query(max_length=300, description="Where it was committed.")] = None,
    group: Annotated[str | None, Query(max_length=300, description="Its logical or technical name.")] = None,
    stream: Annotated[str | None, Query(max_length=1200, description="STREAM in full.")] = None,
) -> dict[str, Any]:
    """What groups have committed by themselves, and where they go on on the other clusters."""
    if cluster is not None and clusters.get_cluster(connection, cluster) is None:
        raise NotFound(f"there is no cluster {cluster[:300]!a}")
    after = None if page.after is None else _place(page.after)
    rows = offsets.list_offsets(
        connection,
        cluster=cluster,
        group=group,
        stream=stream,
        tenants=caller.tenants_for(Action.READ_TENANT),
        after=after,
        limit=page.limit + 1,
    )
    return listed(rows, Page(page.limit, None), _key, _shown)


@router.get("/offsets/not-followed", openapi_extra=needs(Action.READ_ESTATE))
def list_not_followed(connection: Reading, page: Paging) -> dict[str, Any]:
    """Groups whose offsets are not distributed, with the reasons."""
    # In the order of the key here, not of the database's collation.
    rows = sorted(offsets.list_not_followed(connection), key=_not_followed_key)
    return listed(rows, page, _not_followed_key, asdict)


@router.post("/offsets/reset", openapi_extra=needs(Action.MANAGE_TENANT))
def reset_offsets(body: Reset, write: Writing, caller: Asking) -> Response:
    """Set a group's offsets on a cluster, also further back; the other clusters follow."""
    check(caller, Action.MANAGE_TENANT, body.stream, _no_stream(body.stream))
    with write.services.reading() as connection:
        wish = _wish(connection, body)
    wanted = wished_offsets(wish)
    named = {str(partition): offset for partition, offset in wanted.items()}
    shown = {"cluster": body.cluster, "stream": body.stream, "group": body.group, "offsets": named}
    shown["technical_group"] = wish.technical_group
    if write.dry_run:
        return respond(Answer(200, shown))
    command = RecordReset(cluster=body.cluster, stream=body.stream, group=body.group, to=body.to, offsets=named)
    first = write.rehearse(GROUP_RESETS, f"offsets-{body.cluster}", lambda _: command)
    if first is not None:
        return first
    reset(wish, wanted)

    def answer(_: Connection, outcome: Outcome) -> Answer:
        return Answer(200, shown)

    return write.run(GROUP_RESETS, f"offsets-{body.cluster}", lambda _: command, answer)


def _wish(connection: Connection, body: Reset) -> Wish:
    if not is_group_name(body.group):
        detail = f"{ascii(body.group)[:60]} cannot name a group: use letters, digits, '.', '_' and '-'"
        raise NameInvalid(detail, (FieldError("/group", detail),))
    cluster = clusters.get_cluster(connection, body.cluster)
    if cluster is None:
        raise NotFound(f"there is no cluster {body.cluster[:300]!a}")
    row = _stream(connection, body.stream)
    if row is None:
        raise _no_stream(body.stream)
    if body.cluster not in row.incarnations:
        raise NotFound(f"{body.cluster} has no topic of {body.stream}")
    if body.partition is not None and body.partition >= row.partitions:
        raise ValueInvalid(
            f"{body.stream} has {row.partitions} partitions, there is no partition {body.partition}"
        )
    every = range(row.partitions) if body.partition is None else (body.partition,)
    return Wish(
        cluster=cluster,
        stream=StreamName(row.tenant, row.instance, row.environment, row.name),
        topic=row.technical_names[body.cluster],
        group=body.group,
        partitions=tuple(every),
        to=body.to,
    )


def _stream(connection: Connection, name: str) -> StreamRow | None:
    parts = name.split("/")
    if len(parts) != 4 or not all(map(is_name, parts)):
        return None
    tenant, instance, environment, stream = parts
    return streams.get_stream(connection, tenant, instance, environment, stream)


def _no_stream(stream: str) -> NotFound:
    return NotFound(f"there is no stream {stream[:300]!a}")


def _key(row: OffsetRow) -> str:
    return "/".join(map(str, row.place))


def _place(cursor: str | int) -> Place:
    # Of the parts, all but the stream have no slash.
    cluster, *stream, partition, group = str(cursor).split("/") if str(cursor).count("/") >= 3 else ("",) * 4
    if not partition.isascii() or not partition.isdecimal() or len(partition) > 9:
        raise ValueInvalid("this cursor is of another list")
    return cluster, "/".join(stream), int(partition), group


def _not_followed_key(row: NotFollowedRow) -> str:
    return "\n".join((row.cluster, row.technical_group, row.topic))


def _shown(row: OffsetRow) -> dict[str, Any]:
    tenant, instance, environment, stream = row.stream.split("/")
    place = {"tenant": tenant, "instance": instance, "environment": environment, "stream": stream}
    return {**asdict(row), **place}
