"""`/offsets`: committed offsets of groups, their translations on other clusters, and resets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import Asking, check, needs
from backend.api.frame.requests import Body, Page, Paging, Reading, Writing, listed, respond
from backend.changes import offsets as changes
from backend.cluster_requests.resetting import refuse_members, reset, wished_offsets
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action, may
from backend.domain.base.errors import ValueInvalid
from backend.domain.names.names import check_group_name
from backend.queries.offsets import offset_translation, offsets
from backend.queries.offsets.offsets import NotFollowedRow, OffsetRow, Place, Wanted, place_in_words, place_of
from backend.queries.tenants.visible_clusters import check_visible

router = APIRouter(tags=["offsets"])


class Reset(Body):
    """Offsets to set for a group on one cluster."""

    cluster: str = Field(max_length=300, description="Cluster whose offsets are set; the other clusters follow.")
    stream: str = Field(max_length=1200, description="tenant/instance/environment/stream")
    group: str = Field(max_length=300, description="Logical name of the group.")
    partition: int | None = Field(None, ge=0, le=2**31 - 1, description="Partition; all partitions if omitted.")
    to: str = Field(max_length=60, description="earliest, latest, an offset, or a time in ISO 8601.")


@router.get("/offsets", openapi_extra=needs(Action.READ_TENANT))
def list_offsets(
    connection: Reading,
    caller: Asking,
    page: Paging,
    cluster: Annotated[str | None, Query(max_length=300, description="Cluster of the commit.")] = None,
    group: Annotated[str | None, Query(max_length=300, description="Logical or technical group.")] = None,
    stream: Annotated[str | None, Query(max_length=1200, description="tenant/instance/environment/stream")] = None,
) -> dict[str, Any]:
    """List groups' own commits and the offsets at which the groups continue on the other clusters.

    `translation` gives the state of the worker that translates commits, since when, and how many commits wait.
    """
    if group is not None:
        # The group's own name is part of its technical name, so one rule serves both.
        check_group_name(group, "/group")
    check_visible(connection, caller, cluster)
    after = None if page.after is None else _place(page.after)
    tenants = caller.tenants_for(Action.READ_TENANT)
    wanted = Wanted(
        cluster=cluster, group=group, stream=stream, tenants=tenants, after=after, limit=page.limit + 1
    )
    found = listed(offsets.list_offsets(connection, wanted), Page(page.limit, None), _key, _shown)
    whole = may(caller, Action.READ_ESTATE)
    return {**found, "translation": offset_translation.read(connection).document(whole=whole)}


@router.get("/offsets/not-followed", openapi_extra=needs(Action.READ_ESTATE))
def list_not_followed(connection: Reading, page: Paging) -> dict[str, Any]:
    """List groups whose offsets are not distributed, with the reasons."""
    # By the key as Python orders it, not by the database's collation.
    rows = sorted(offsets.list_not_followed(connection), key=_not_followed_key)
    return listed(rows, page, _not_followed_key, asdict)


@router.post("/offsets/reset", openapi_extra=needs(Action.MANAGE_TENANT))
def reset_offsets(body: Reset, write: Writing, caller: Asking) -> Response:
    """Set a group's offsets on a cluster, forwards or backwards; the other clusters follow."""
    check(caller, Action.MANAGE_TENANT, body.stream, changes.no_stream(body.stream))
    with write.services.reading() as connection:
        wish = changes.wish(connection, caller, body.cluster, body.stream, body.group, body.partition, body.to)
    wanted = wished_offsets(wish)
    named = {str(partition): offset for partition, offset in wanted.items()}
    shown = {"cluster": body.cluster, "stream": body.stream, "group": body.group, "offsets": named}
    shown["technical_group"] = wish.technical_group
    change = changes.record_reset(wish, wanted)
    first = write.rehearse_change(change)
    if first is not None:
        return first
    if write.dry_run:
        refuse_members(wish)
        return respond(Answer(200, shown))
    reset(write.services.engine, wish, wanted)

    def answer(_: Connection, outcome: Outcome) -> Answer:
        return Answer(200, shown)

    return write.carry_out(change, answer)


def _key(row: OffsetRow) -> str:
    return place_in_words(row.place)


def _place(cursor: str | int) -> Place:
    found = place_of(str(cursor))
    if found is None:
        raise ValueInvalid("this cursor belongs to another list")
    return found


def _not_followed_key(row: NotFollowedRow) -> str:
    return "\n".join((row.cluster, row.technical_group, row.topic))


def _shown(row: OffsetRow) -> dict[str, Any]:
    tenant, instance, environment, stream = row.stream.split("/")
    place = {"tenant": tenant, "instance": instance, "environment": environment, "stream": stream}
    return {**asdict(row), **place}
