"""`/offsets`: where groups are on every cluster, and how many records at most come to them again elsewhere."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from sqlalchemy import Connection

from backend.domain.access import Action, Caller, may, may_somewhere
from backend.queries.clusters import leaves
from backend.queries.offsets import OffsetRow, Place, list_not_followed, list_offsets
from backend.web import templates
from backend.web.figures import moment, plain
from backend.web.pages import PageRoute, enter_somewhere
from backend.web.services import ConsoleServices, Shared, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

OFFSETS = "/offsets"
TEMPLATE = "offsets.html"
MOST_SHOWN = 100
COLUMNS = (
    *("group", "stream", "partition", "committed_on", "committed_offset", "committed_at"),
    *("cluster", "offset", "mode", "re_read_bound", "state", "reason"),
)
_MOST_OTHERS = 200
_EXPORTED_AT_ONCE = 500
Text = Annotated[str, Query(max_length=1200)]


@dataclass(frozen=True)
class Asked:
    """Which groups are to be shown."""

    group: str
    stream: str
    cluster: str

    def query(self, **more: str) -> str:
        """As the address says it."""
        given = {"group": self.group, "stream": self.stream, "cluster": self.cluster, **more}
        return urlencode({key: value for key, value in given.items() if value})


@router.get(OFFSETS)
def offsets_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    group: Text = "",
    stream: Text = "",
    cluster: Text = "",
    after: Text = "",
) -> Response:
    """The page: the first, or those behind one."""
    caller = enter_somewhere(viewer, Action.READ_TENANT)
    context = _listed(services, caller, _asked(group, stream, cluster), _place(after))
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(OFFSETS + "/-live")
def offsets_live(
    services: Shared, viewer: Viewer, group: Text = "", stream: Text = "", cluster: Text = ""
) -> Response:
    """What changes on it."""
    caller = enter_somewhere(viewer, Action.READ_TENANT)
    context = _listed(services, caller, _asked(group, stream, cluster), None)
    return HTMLResponse(templates.block(TEMPLATE, "cockpit", context))


@router.get(OFFSETS + "/-export")
def offsets_export(
    services: Shared, viewer: Viewer, group: Text = "", stream: Text = "", cluster: Text = ""
) -> Response:
    """All of them as comma-separated values: a line for each cluster where a group goes on."""
    caller = enter_somewhere(viewer, Action.READ_TENANT)
    lines = _exported(services, caller, _asked(group, stream, cluster))
    name = f"offsets-{datetime.now(UTC):%Y%m%d-%H%M%S}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _exported(services: ConsoleServices, caller: Caller, asked: Asked) -> Iterator[str]:
    """Some at a time, so that it holds no more of them."""
    yield _csv([COLUMNS])
    after: Place | None = None
    while True:
        with services.reading() as connection:
            rows = _rows(connection, caller, asked, after, _EXPORTED_AT_ONCE)
        yield _csv(line for row in rows for line in _lines(row))
        if len(rows) < _EXPORTED_AT_ONCE:
            return
        after = rows[-1].place


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue()


def _listed(services: ConsoleServices, caller: Caller, asked: Asked, after: Place | None) -> Mapping[str, Any]:
    with services.reading() as connection:
        rows = _rows(connection, caller, asked, after, MOST_SHOWN + 1)
        sees_all = may(caller, Action.READ_ESTATE)
        others = list_not_followed(connection, _MOST_OTHERS + 1) if sees_all else []
        clusters = leaves(connection)
    shown = rows[:MOST_SHOWN]
    return {
        "offsets": shown,
        "may_reset": may_somewhere(caller, Action.MANAGE_TENANT),
        "asked": asked,
        "clusters": clusters,
        "query": asked.query(),
        "is_first": after is None,
        "following": asked.query(after=_written(shown[-1].place)) if len(rows) > MOST_SHOWN else None,
        "others": others[:_MOST_OTHERS],
        "more_others": len(others) > _MOST_OTHERS,
    }


def _rows(
    connection: Connection, caller: Caller, asked: Asked, after: Place | None, most: int
) -> Sequence[OffsetRow]:
    return list_offsets(
        connection,
        cluster=asked.cluster or None,
        group=asked.group or None,
        stream=asked.stream or None,
        tenants=caller.tenants_for(Action.READ_TENANT),
        after=after,
        limit=most,
    )


def _lines(row: OffsetRow) -> Iterator[Sequence[Any]]:
    committed = moment(row.committed_at_ms)
    made = (row.group, row.stream, row.partition, row.cluster, row.committed_offset, committed)
    if not row.elsewhere:
        yield (*made, "", "", "", "", "", "")
    for each in row.elsewhere:
        yield (*made, each.cluster, each.offset, each.mode, each.re_read_bound, each.state, each.reason)


def _asked(group: str, stream: str, cluster: str) -> Asked:
    return Asked(*map(plain, (group, stream, cluster)))


def _written(place: Place) -> str:
    return "/".join(map(str, place))


def _place(text: str) -> Place | None:
    """The place behind which the page begins; what is none is the beginning."""
    cluster, *stream, partition, group = text.split("/") if text.count("/") >= 3 else ("", "", "")
    if not text.isprintable() or not partition.isascii() or not partition.isdecimal() or len(partition) > 9:
        return None
    return cluster, "/".join(stream), int(partition), group
