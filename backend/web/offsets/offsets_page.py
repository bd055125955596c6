"""`/offsets`: committed offsets on every cluster, with the most records that groups read again elsewhere.

As of an earlier position the page shows the last observation before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from sqlalchemy import Connection

from backend.csv_lines import csv_lines
from backend.domain.access.access import Action, Caller, may, may_somewhere
from backend.domain.base.errors import NotFound
from backend.queries.history.snapshot_offsets import list_commits
from backend.queries.history.snapshot_offsets import list_not_followed as list_past_not_followed
from backend.queries.offsets import offset_translation
from backend.queries.offsets.offset_translation import TranslationRow
from backend.queries.offsets.offsets import (
    CommitRow,
    NotFollowedRow,
    Place,
    Wanted,
    list_not_followed,
    list_offsets,
    place_in_words,
    place_of,
)
from backend.queries.tenants.visible_clusters import visible_leaves
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.past_observation import PastObservation, past_observation, requested_observation
from backend.web.frame.requested_position import At
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.words.figures import moment, plain

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
    """Filter of the page, from the query string."""

    group: str
    stream: str
    cluster: str

    def wanted(self, caller: Caller, after: Place | None, most: int) -> Wanted:
        """Return the filter as a query for rows that the caller may see."""
        return Wanted(
            cluster=self.cluster or None,
            group=self.group or None,
            stream=self.stream or None,
            tenants=caller.tenants_for(Action.READ_TENANT),
            after=after,
            limit=most,
        )

    def query(self, **more: str) -> str:
        """Return the filter as a query string."""
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
    at: At = None,
) -> Response:
    """Show a page of the list, now or as of an earlier position."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    context = _listed(services, caller, _asked(group, stream, cluster), place_of(plain(after)), at)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(OFFSETS + "/-live")
def offsets_live(
    services: Shared, viewer: Viewer, group: Text = "", stream: Text = "", cluster: Text = ""
) -> Response:
    """Return the part of the page that is refreshed."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    context = _listed(services, caller, _asked(group, stream, cluster), None)
    return HTMLResponse(templates.block(TEMPLATE, "cockpit", context))


@router.get(OFFSETS + "/-export")
def offsets_export(
    services: Shared, viewer: Viewer, group: Text = "", stream: Text = "", cluster: Text = "", at: At = None
) -> Response:
    """Export all rows as CSV: one line for each cluster on which a group continues."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    with services.reading() as connection:
        position, _ = requested_observation(connection, caller, at)
        then = past_observation(connection, caller, position)
    if then is not None and then.snapshot is None:
        raise NotFound(then.sentence)
    lines = _exported(services, caller, _asked(group, stream, cluster), then)
    when = datetime.now(UTC) if then is None or then.snapshot is None else then.snapshot.at.astimezone(UTC)
    name = f"offsets-{when:%Y%m%d-%H%M%S}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _exported(
    services: ConsoleServices, caller: Caller, asked: Asked, then: PastObservation | None
) -> Iterator[str]:
    """Yield the lines page by page, so that memory stays bounded."""
    yield csv_lines([COLUMNS])
    after: Place | None = None
    while True:
        with services.reading() as connection:
            rows = _rows(connection, asked.wanted(caller, after, _EXPORTED_AT_ONCE), then)
        yield csv_lines(line for row in rows for line in _lines(row))
        if len(rows) < _EXPORTED_AT_ONCE:
            return
        after = rows[-1].place


def _listed(
    services: ConsoleServices, caller: Caller, asked: Asked, after: Place | None, at: str | None = None
) -> Mapping[str, Any]:
    with services.reading() as connection:
        position, past = requested_observation(connection, caller, at)
        then = past_observation(connection, caller, position)
        rows = _rows(connection, asked.wanted(caller, after, MOST_SHOWN + 1), then)
        others = _others(connection, then) if may(caller, Action.READ_ESTATE) else []
        clusters = visible_leaves(connection, caller, position)
        translation = offset_translation.read(connection) if then is None else None
    shown = rows[:MOST_SHOWN]
    return {
        "past": past,
        **({} if then is None else {"shown_then": then.sentence}),
        "nothing_kept": then is not None and then.snapshot is None,
        "offsets": shown,
        "may_reset": past is None and may_somewhere(caller, Action.MANAGE_TENANT),
        "asked": asked,
        "clusters": clusters,
        "query": asked.query(),
        "is_first": after is None,
        "follows": after is None and past is None,
        "following": asked.query(after=place_in_words(shown[-1].place)) if len(rows) > MOST_SHOWN else None,
        "translation": _translation_notice(caller, translation),
        "others": others[:_MOST_OTHERS],
        "more_others": len(others) > _MOST_OTHERS,
    }


def _translation_notice(caller: Caller, row: TranslationRow | None) -> Mapping[str, Any] | None:
    """Return the translator's state if commits wait for it; None otherwise."""
    if row is None or not row.waits:
        return None
    document = row.document(whole=may(caller, Action.READ_ESTATE))
    return {**document, "since": row.since} if document["text"] else None


def _rows(connection: Connection, wanted: Wanted, then: PastObservation | None) -> Sequence[CommitRow]:
    if then is None:
        return list_offsets(connection, wanted)
    return [] if then.snapshot is None else list_commits(connection, wanted, then.snapshot)


def _others(connection: Connection, then: PastObservation | None) -> Sequence[NotFollowedRow]:
    if then is None:
        return list_not_followed(connection, _MOST_OTHERS + 1)
    return [] if then.snapshot is None else list_past_not_followed(connection, _MOST_OTHERS + 1, then.snapshot)


def _lines(row: CommitRow) -> Iterator[Sequence[Any]]:
    committed = moment(row.committed_at_ms)
    made = (row.group, row.stream, row.partition, row.cluster, row.committed_offset, committed)
    if not row.elsewhere:
        yield (*made, "", "", "", "", "", "")
    for each in row.elsewhere:
        yield (*made, each.cluster, each.offset, each.mode, each.re_read_bound, each.state, each.reason)


def _asked(group: str, stream: str, cluster: str) -> Asked:
    return Asked(*map(plain, (group, stream, cluster)))
