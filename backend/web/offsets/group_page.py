"""`/groups/-of`: one consumer group on every cluster; its members and partitions on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may
from backend.domain.base.errors import NotFound
from backend.domain.offsets.observed_group import GroupPartition
from backend.queries.history.measures import has_subject
from backend.queries.offsets.observed_groups import GroupRow, get_group, groups_called, with_switches
from backend.queries.offsets.offsets import OffsetRow, Wanted, list_offsets
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import held_environments
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.history.chart import SMALL
from backend.web.history.measure_charts import DEFAULT_RANGE, read_charts, window
from backend.web.offsets.group_words import LABELS, severity
from backend.web.offsets.groups_page import GROUPS, LAG, group_address, subject_of
from backend.web.offsets.offset_reset_form import RESET
from backend.web.words.figures import plain, span

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TEMPLATE = "group.html"
_MEASURES = (LAG, "group.records_per_second")
_MOST_COMMITS = 5000
_MOST_PARTITIONS = 1000
_MOST_ASSIGNED = 20
Text = Annotated[str, Query(max_length=1200)]


@dataclass(frozen=True, kw_only=True)
class MemberLine:
    """A member with what is assigned to it."""

    client_id: str
    host: str
    member_id: str
    instance_id: str | None
    partitions: int
    assigned: str


@dataclass(frozen=True, kw_only=True)
class PartitionLine:
    """A partition with its owner and the actions that the viewer has for it."""

    row: GroupPartition
    owner: str
    stalled: bool
    reset: str | None
    """Address of the form that resets the group's offset for it; None: the viewer may not."""
    messages: str | None
    """Address of the messages from the committed offset on; None: the viewer may not read them."""


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """A cluster on which the group would go on after a switch."""

    cluster: str
    partitions: int
    set_for: int
    """Partitions for which an offset is set there."""
    re_read: int | None
    """Most records that it would read again; None: not known for some partition."""
    reasons: tuple[str, ...]


def _members(row: GroupRow) -> list[MemberLine]:
    owned: dict[str, dict[str, list[int]]] = {}
    for each in row.partitions:
        if each.member is not None:
            owned.setdefault(each.member, {}).setdefault(each.name, []).append(each.partition)
    return [
        MemberLine(
            client_id=member.client_id,
            host=member.host,
            member_id=member.member_id,
            instance_id=member.instance_id,
            partitions=member.partitions,
            assigned=_assigned(owned.get(member.member_id, {})),
        )
        for member in row.members
    ]


def _assigned(topics: Mapping[str, Sequence[int]]) -> str:
    """Return the partitions in words: `orders 0, 1, 2; items 4`, shortened where there are many."""
    named = []
    for topic, partitions in sorted(topics.items()):
        shown = ", ".join(map(str, sorted(partitions)[:_MOST_ASSIGNED]))
        more = len(partitions) - _MOST_ASSIGNED
        named.append(f"{topic} {shown}" + (f" and {more} more" if more > 0 else ""))
    return "; ".join(named)


def _partitions(caller: Caller, row: GroupRow) -> list[PartitionLine]:
    owners = {each.member_id: f"{each.client_id} on {each.host}" for each in row.members}
    return [
        PartitionLine(
            row=each,
            owner=owners.get(each.member or "", ""),
            stalled=bool(each.lag_records) and not each.records_per_second,
            reset=_reset_address(caller, row, each),
            messages=_messages_address(caller, row, each),
        )
        for each in row.partitions[:_MOST_PARTITIONS]
    ]


def _reset_address(caller: Caller, row: GroupRow, partition: GroupPartition | None) -> str | None:
    stream = next((each.stream for each in row.partitions if each.stream), None)
    if partition is not None:
        stream = partition.stream
    # A reset sets offsets for the stream's own environment only: elsewhere the group has another name.
    if stream is None or row.group is None or row.place is None or not stream.startswith(f"{row.place}/"):
        return None
    if not may(caller, Action.MANAGE_TENANT, stream.partition("/")[0]):
        return None
    given = {"stream": stream, "group": row.group, "cluster": row.cluster}
    return f"{RESET}?{urlencode(given if partition is None else {**given, 'partition': partition.partition})}"


def _messages_address(caller: Caller, row: GroupRow, partition: GroupPartition) -> str | None:
    stream, offset = partition.stream, partition.committed_offset
    if stream is None or not may(caller, Action.READ_MESSAGES, stream.partition("/")[0]):
        return None
    given: dict[str, Any] = {"cluster": row.cluster, "partition": partition.partition}
    given |= {"begin": "earliest"} if offset is None else {"begin": "offset", "offset": offset}
    return f"/tenants/{stream}/-messages?{urlencode(given)}"


def _continuations(row: GroupRow, commits: Sequence[OffsetRow]) -> list[Continuation]:
    """Return, for each other cluster, where the group would go on with what it has committed here."""
    found: dict[str, list[tuple[int | None, int | None, str | None]]] = {}
    own = [each for each in commits if each.technical_group == row.technical_group and each.cluster == row.cluster]
    for commit in own:
        for there in commit.elsewhere:
            found.setdefault(there.cluster, []).append((there.offset, there.re_read_bound, there.reason))
    return [
        Continuation(
            cluster=cluster,
            partitions=len(own),
            set_for=sum(offset is not None for offset, _, _ in rows),
            re_read=None
            if any(offset is None or bound is None for offset, bound, _ in rows)
            else sum(bound or 0 for _, bound, _ in rows),
            reasons=tuple(sorted({reason for _, _, reason in rows if reason}))[:3],
        )
        for cluster, rows in sorted(found.items())
    ]


def _context(connection: Connection, caller: Caller, cluster: str, group: str) -> Mapping[str, Any]:
    tenants = caller.tenants_for(Action.READ_TENANT)
    row = get_group(connection, cluster, group, tenants)
    if row is None:
        raise NotFound(
            f"there is no consumer group {group[:300]!r} on cluster {cluster[:300]!r}, or it has been idle for so "
            "long that Kafka has deleted it"
        )
    everywhere = [row]
    if row.place is not None and row.group is not None:
        everywhere = groups_called(connection, row.place, row.group, tenants)
    holding = held_environments(connection, numbered=may(caller, Action.READ_ESTATE))
    everywhere = with_switches(everywhere, holding)
    (row,) = with_switches([row], holding)
    active = None
    if row.place is not None:
        tenant, instance, environment = row.place.split("/")
        places = list_active(connection, places=[(tenant, instance, environment)])
        active = next((each.cluster for each in places if each.zone is None), None)
    wanted = Wanted(cluster=cluster, group=group, tenants=tenants, limit=_MOST_COMMITS)
    return {
        "row": row,
        "name": row.group or row.technical_group,
        "everywhere": everywhere,
        "active": active,
        "members": _members(row),
        "partitions": _partitions(caller, row),
        "more_partitions": max(0, len(row.partitions) - _MOST_PARTITIONS),
        "continuations": _continuations(row, list_offsets(connection, wanted)),
        "reset": _reset_address(caller, row, None),
        "export": f"{GROUPS}/-export?{urlencode({'group': row.technical_group, 'cluster': cluster})}",
        "offsets": f"/offsets?{urlencode({'group': row.technical_group})}",
        "here": group_address(cluster, group),
        "live": f"{GROUPS}/-of/-live?{urlencode({'cluster': cluster, 'group': group})}",
        "address": group_address,
        "labels": LABELS,
        "severity": severity,
        "span": span,
    }


@router.get(GROUPS + "/-of")
def group_page(
    request: Request, services: Shared, viewer: Viewer, cluster: Text = "", group: Text = ""
) -> Response:
    """Show one group. Raises NotFound, for groups of other tenants as well."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    with services.reading() as connection:
        context = _context(connection, caller, plain(cluster), group)
        subject, shown = subject_of(context["row"]), window(DEFAULT_RANGE)
        figures = [
            view
            for metric in _MEASURES
            if has_subject(connection, metric, subject, caller.tenants_for(Action.READ_TENANT))
            for view in read_charts(connection, metric, [subject], shown, size=SMALL)
        ]
    return templates.page(TEMPLATE, {**frame(request, caller), **context, "figures": figures})


@router.get(GROUPS + "/-of/-live")
def group_live(services: Shared, viewer: Viewer, cluster: Text = "", group: Text = "") -> Response:
    """Return the part of the page that is refreshed."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    with services.reading() as connection:
        context = _context(connection, caller, plain(cluster), group)
    return HTMLResponse(templates.block(TEMPLATE, "cockpit", context))
