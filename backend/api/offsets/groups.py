"""`/groups`: consumer groups as observed on each cluster, with their lag and the reason for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import Page, Paging, Reading, listed
from backend.domain.access.access import Action, Caller, may
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.names.names import check_group_name
from backend.domain.offsets.group_diagnosis import CODES
from backend.queries.offsets.observed_groups import (
    GroupRow,
    GroupsWanted,
    Key,
    list_groups,
    list_observations,
)
from backend.queries.switch.switches import held_environments
from backend.queries.tenants.visible_clusters import check_visible, visible_clusters

router = APIRouter(tags=["offsets"])


@router.get("/groups", openapi_extra=needs(Action.READ_TENANT))
def list_observed_groups(
    connection: Reading,
    caller: Asking,
    page: Paging,
    cluster: Annotated[str | None, Query(max_length=300, description="Cluster of the group.")] = None,
    group: Annotated[str | None, Query(max_length=600, description="Logical or technical name.")] = None,
    stream: Annotated[str | None, Query(max_length=1200, description="tenant/instance/environment/stream")] = None,
    diagnosis: Annotated[str | None, Query(max_length=60, description="Code of the diagnosis.")] = None,
) -> dict[str, Any]:
    """List consumer groups on each cluster: members, offsets, lag, and one sentence that says why they lag.

    `group` is null if the technical name does not match the cluster's group format. Members of a tenant see the
    groups of their tenant, and of others the partitions of their streams; sums and diagnosis are those of the
    partitions shown. `observations` gives for each cluster the age of the last observation, and why a later one
    failed; to members of a tenant, for the clusters of its trees.
    """
    if group is not None and not group.isprintable():
        check_group_name(group, "/group")
    if diagnosis is not None and diagnosis not in CODES:
        detail = f"there is no diagnosis {diagnosis!r}; known are {', '.join(CODES)}"
        raise ValueInvalid(detail, (FieldError("/diagnosis", detail),))
    check_visible(connection, caller, cluster)
    wanted = GroupsWanted(
        cluster=cluster,
        group=group,
        stream=stream,
        tenants=caller.tenants_for(Action.READ_TENANT),
        code=diagnosis,
        after=None if page.after is None else _key_of(page.after),
        limit=page.limit + 1,
        holding=held_environments(connection),
    )
    found = listed(list_groups(connection, wanted), Page(page.limit, None), _cursor, _shown)
    return {**found, "observations": list(_observations(connection, caller, cluster))}


def _observations(connection: Connection, caller: Caller, cluster: str | None) -> Iterable[dict[str, Any]]:
    whole = may(caller, Action.READ_ESTATE)
    known = {row.cluster: row for row in list_observations(connection)}
    for name in visible_clusters(connection, caller):
        if cluster not in (None, name):
            continue
        row = known.get(name)
        age = None if row is None else row.age_seconds
        yield {
            "cluster": name,
            "age_ms": None if age is None else round(1000 * age),
            # Clusters' errors name their brokers, and their groups are those of all tenants.
            "reason": row.reason if row is not None and whole else None,
            "groups": row.groups if row is not None and whole else None,
            "truncated": row is not None and row.truncated,
        }


def _cursor(row: GroupRow) -> str:
    # A cluster's name has no slash; a group's may.
    return "/".join(row.key)


def _key_of(cursor: str | int) -> Key:
    cluster, slash, technical_group = str(cursor).partition("/")
    if not slash or not technical_group:
        raise ValueInvalid("this cursor belongs to another list")
    return cluster, technical_group


def _shown(row: GroupRow) -> dict[str, Any]:
    tenant, instance, environment = (None, None, None) if row.place is None else row.place.split("/")
    return {
        "group": row.group,
        "technical_name": row.technical_group,
        "cluster": row.cluster,
        "tenant": tenant,
        "instance": instance,
        "environment": environment,
        "state": row.state,
        "protocol": row.protocol,
        "member_count": row.member_count,
        "members": [asdict(each) for each in row.members],
        "lag_records": row.lag_records,
        "records_per_second": row.records_per_second,
        "time_lag_ms": row.time_lag_ms,
        "time_lag_at_least_ms": row.time_lag_at_least_ms,
        "diagnosis": {**asdict(row.diagnosis), "since_ms": row.since_ms},
        "partitions": [asdict(each) for each in row.partitions],
        "observed_at_ms": round(1000 * row.observed_at.timestamp()),
    }
