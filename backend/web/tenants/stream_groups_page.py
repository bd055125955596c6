"""`/tenants/{t}/{i}/{e}/{stream}/-groups`: the consumer groups of a stream on every cluster, and why they lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from backend.domain.access.access import Action, Caller, may
from backend.domain.names.names import StreamName
from backend.domain.offsets.observed_group import sums
from backend.queries.offsets.observed_groups import GroupRow, GroupsWanted, list_groups
from backend.queries.switch.switches import held_environments
from backend.queries.tenants.streams import find_stream
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.offsets.group_words import LABELS, severity
from backend.web.offsets.groups_page import group_address
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.tenants.stream_tabs import GROUPS, stream_address, stream_top
from backend.web.words.figures import span

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TEMPLATE = "stream_groups.html"
MOST_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class GroupOfStream:
    """A group on one cluster, with its sums over this stream's partitions only."""

    row: GroupRow
    partitions: int
    lag_records: int | None
    records_per_second: float | None
    time_lag_ms: int | None
    time_lag_at_least_ms: int | None


@router.get(STREAM + "/-groups")
def groups_of_stream(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the groups, the largest lag first."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    context = {**_listed(services, caller, name), "top": stream_top(caller, name, GROUPS)}
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(STREAM + "/-groups/-live")
def groups_of_stream_live(name: Named, services: Shared, viewer: Viewer) -> Response:
    """Return the list alone; the page polls it."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    return HTMLResponse(templates.block(TEMPLATE, "groups", _listed(services, caller, name)))


def _listed(services: ConsoleServices, caller: Caller, name: StreamName) -> Mapping[str, Any]:
    stream = str(name)
    with services.reading() as connection:
        find_stream(connection, name)
        wanted = GroupsWanted(
            stream=stream,
            tenants=caller.tenants_for(Action.READ_TENANT),
            by_lag=True,
            limit=MOST_SHOWN + 1,
            holding=held_environments(connection, numbered=may(caller, Action.READ_ESTATE)),
        )
        found = list_groups(connection, wanted)
    return {
        "here": stream_address(name),
        "groups": _of_stream(found[:MOST_SHOWN], stream),
        "more": f"/groups?{urlencode({'stream': stream})}" if len(found) > MOST_SHOWN else None,
        "offsets": f"/offsets?{urlencode({'stream': stream})}",
        "labels": LABELS,
        "severity": severity,
        "address": group_address,
        "span": span,
    }


def _of_stream(found: Sequence[GroupRow], stream: str) -> list[GroupOfStream]:
    shown = []
    for row in found:
        its = [each for each in row.partitions if each.stream == stream]
        total = sums(its)
        shown.append(
            GroupOfStream(
                row=row,
                partitions=len(its),
                lag_records=total.lag_records,
                records_per_second=total.records_per_second,
                time_lag_ms=total.time_lag_ms,
                time_lag_at_least_ms=total.time_lag_at_least_ms,
            )
        )
    return shown
