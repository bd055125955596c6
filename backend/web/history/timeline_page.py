"""`/timeline`: the event log, single events with their changes, and differences between two positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.changes.undoing.finding import FINDERS
from backend.domain.access.access import Action, Caller, may, tenants_read
from backend.domain.base.errors import NotFound
from backend.domain.base.given_times import time_since
from backend.eventlog.recorded import StoredEvent
from backend.queries.base import events
from backend.queries.base.differences import differences
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, enter_in_some_tenant
from backend.web.frame.requested_position import At, requested_position, whole_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.frame.timeline_view import changed, stored, timeline_items
from backend.web.words.figures import plain
from backend.web.words.sentences import SENTENCES

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TIMELINE = "/timeline"
TEMPLATE = "timeline.html"
MOST_SHOWN = 100
MOST_CHANGES = 300
MOST_POSITIONS = 2**63 - 1
_SAME_REQUEST = 50
Text = Annotated[str, Query(max_length=1200)]
Position = Annotated[str, Query(max_length=40)]
Time = Annotated[str, Query(max_length=40)]


@dataclass(frozen=True)
class Asked:
    """Filters of a page of events."""

    of: str
    """Full name of an event stream."""
    stream: str
    """Prefix of event streams' names."""
    name: str
    actor: str
    since: str
    """Time from which events are shown, in UTC."""

    def query(self, **more: int) -> str:
        """Return the filters as the query part of an address."""
        given: dict[str, Any] = {"of": self.of, "stream": self.stream, "name": self.name, "actor": self.actor}
        given |= {"since": self.since, **more}
        return urlencode({key: value for key, value in given.items() if value}, safe=":")


@router.get(TIMELINE)
def timeline_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    of: Text = "",
    stream: Text = "",
    name: Text = "",
    actor: Text = "",
    since: Time = "",
    before: Position = "",
    at: At = None,
) -> Response:
    """Show events, newest first: all, or those below a position; now or at an earlier position."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    context = _listed(services, caller, _asked(of, stream, name, actor, since), before, at)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(TIMELINE + "/-live")
def timeline_live(
    services: Shared,
    viewer: Viewer,
    of: Text = "",
    stream: Text = "",
    name: Text = "",
    actor: Text = "",
    since: Time = "",
    seen: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
) -> Response:
    """Return the changed part of the newest page; 204 while the log has not grown."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    if seen and may(caller, Action.READ_ESTATE):  # other callers must not learn where the log ends
        with services.looking() as connection:
            if events.head(connection).position == seen:
                return Response(status_code=204)
    context = _listed(services, caller, _asked(of, stream, name, actor, since), "", None)
    return HTMLResponse(templates.block(TEMPLATE, "cockpit", context))


@router.get(TIMELINE + "/-moment")
def moment(services: Shared, viewer: Viewer, position: Position = "") -> dict[str, object]:
    """Describe a position for the slider: the newest event up to it, and the highest position."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    tenants = tenants_read(caller)
    with services.reading() as connection:
        newest = events.events_before(connection, MOST_POSITIONS, 1, tenants=tenants)
        last = newest[0].position if newest else 0
        if tenants is None:
            last = events.head(connection).position
        asked = whole_position(position) if position.strip() else last
        found = events.events_before(connection, min(asked, last) + 1, 1, tenants=tenants)
        items = timeline_items(connection, found)
    if asked > last:
        said = f"The newest event is at {last:,}."
    elif items:
        item = items[0]
        said = f"{item.position:,}, {item.day} {item.time} UTC, {item.actor}: {item.sentence}"
    else:
        said = "Before the first event: the estate was empty."
    return {"newest": last, "said": said}


@router.get(TIMELINE + "/-differences")
def differences_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    first: Annotated[str, Query(max_length=40, alias="from")] = "",
    last: Annotated[str, Query(max_length=40, alias="to")] = "",
) -> Response:
    """Show the configuration differences between two positions."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        head = events.head(connection).position
        start = requested_position(connection, caller, first or "0")[0] or 0
        end = requested_position(connection, caller, last)[0]
        end = head if end is None else end
        found = differences(connection, start, end)
    context = {
        "first": start,
        "last": end,
        "head": head,
        "changes": [changed(each) for each in found[:MOST_CHANGES]],
        "total": len(found),
    }
    return templates.page("differences.html", {**frame(request, caller), **context})


@router.get(TIMELINE + "/{position}")
def event_page(position: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show one event: its data, its changes, and the other events of its request."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    with services.reading() as connection:
        event = existing_event(connection, caller, position)
        head = events.head(connection).position
        sees_all = may(caller, Action.READ_ESTATE)
        changes = differences(connection, event.position - 1, event.position) if sees_all else []
        beside = events.of_same_request(connection, event, _SAME_REQUEST) if sees_all else []
        item, *others = timeline_items(connection, [event, *beside])
    context = {
        "event": event,
        "item": item,
        "data": stored(event),
        "head": head,
        "changes": [changed(each) for each in changes[:MOST_CHANGES]],
        "total": len(changes),
        "beside": others,
        "sees_all": sees_all,
        "can_undo": event.name in FINDERS,
    }
    return templates.page("event.html", {**frame(request, caller), **context})


def existing_event(connection: Connection, caller: Caller, position: str) -> StoredEvent:
    """Return the event that a path names, if the caller may read it. Raises NotFound."""
    number = int(position) if position.isascii() and position.isdigit() and len(position) <= 18 else 0
    event = events.event_at(connection, number, tenants_read(caller)) if number else None
    if event is None:
        raise NotFound(f"there is no event at position {position[:40]!r}")
    return event


def _listed(
    services: ConsoleServices, caller: Caller, asked: Asked, before: str, at: str | None
) -> Mapping[str, Any]:
    with services.reading() as connection:
        newest = events.head(connection).position
        position, past = requested_position(connection, caller, at)
        limit = _limit(connection, caller, before)
        if position is not None:
            limit = position + 1 if limit is None else min(limit, position + 1)
        found = events.events_before(
            connection,
            newest + 1 if limit is None else limit,
            MOST_SHOWN + 1,
            stream=asked.of,
            stream_prefix=asked.stream,
            name=asked.name,
            actor=asked.actor,
            since=time_since(asked.since),
            tenants=tenants_read(caller),
        )
        items = timeline_items(connection, found[:MOST_SHOWN])
    return {
        "items": items,
        "asked": asked,
        "kinds": sorted(SENTENCES),
        "may_rebuild": may(caller, Action.CHANGE_ESTATE),
        "before": limit,
        "past": past,
        "head": newest,
        "earlier": asked.query(before=items[-1].position) if len(found) > MOST_SHOWN else None,
        "newest": asked.query(),
        "live": asked.query(seen=newest) if may(caller, Action.READ_ESTATE) else asked.query(),
        "sees_all": may(caller, Action.READ_ESTATE),
    }


def _limit(connection: Connection, caller: Caller, before: str) -> int | None:
    """Return the position below which events are shown; None for the newest."""
    if may(caller, Action.READ_ESTATE):
        return requested_position(connection, caller, before)[0]
    text = before.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _asked(of: str, stream: str, name: str, actor: str, since: str) -> Asked:
    moment = time_since(since.strip())
    # In UTC without a zone, as the form's field takes it.
    at = "" if moment is None else moment.replace(tzinfo=None).isoformat(timespec="seconds")
    return Asked(plain(of), plain(stream), plain(name), plain(actor), at)
