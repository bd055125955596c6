"""`/switches/{id}`: the status page of a switch, live while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, refusal
from backend.domain.switch.cluster_switch import ENDED
from backend.domain.switch.switch_plan import moves_of
from backend.queries.base.names_of_events import name_switches
from backend.queries.switch import switch_progress
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switch_clients import clients_of, missing
from backend.queries.switch.switches import SwitchRow, find_switch, list_phases
from backend.switching import planning
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.switch.switch_view import Live, SwitchView
from backend.web.switch.switches_page import SWITCHES
from backend.web.switch.unreplicated_view import unreplicated_of
from backend.web.words.names import switch_name

router = APIRouter(include_in_schema=False, route_class=PageRoute)

SWITCH = "/switches/{switch}"
TEMPLATE = "switch.html"


def view_of(connection: Connection, services: ConsoleServices, switch: str, at: int | None = None) -> SwitchView:
    """Return a switch now, with what it waits for, or at an earlier position, without. Raises NotFound."""
    row = find_switch(connection, switch, at)
    phases = list_phases(connection, [row.id], at)[row.id]
    live = None if at is not None or row.state in ENDED else _live(connection, services, row)
    leads_back = at is None and not row.is_moving and _leads_back(connection, row)
    named = name_switches(connection, [row.id]).get(row.id)
    limit_ms = round(1000 * services.config.switch_hold_seconds)
    return SwitchView(row, phases, live, limit_ms, named, leads_back)


def _leads_back(connection: Connection, row: SwitchRow) -> bool:
    """Return whether a reverse switch would move any client: they may have been moved on since."""
    active = list_active(connection, places={moving.place for moving in row.moves})
    return bool(moves_of(active, planning.reverse_request(row)))


def _live(connection: Connection, services: ConsoleServices, row: SwitchRow) -> Live:
    told = switch_progress.read(connection, row.id) or {}
    if not row.is_moving:
        return Live(now=datetime.now(UTC), progress=told)
    clients = clients_of(connection, row, services.config)
    return Live(
        now=datetime.now(UTC), clients=clients, missing=missing(row, clients, services.config), progress=told
    )


@router.get(SWITCH)
def switch_page(switch: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the page, now or at an earlier position of the event log."""
    caller = enter(viewer, Action.READ_ESTATE)
    return _page(request, services, caller, switch, at)


@router.get(SWITCH + "/-live")
def switch_live(switch: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the part of the page that changes; the page polls it while the switch runs."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        view = view_of(connection, services, switch)
        about = {"reversed_name": _reversed_name(connection, view.row)}
    context = {**frame(request, caller), **_context(caller, view), **about}
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", context))


def _page(
    request: Request,
    services: ConsoleServices,
    caller: Caller,
    switch: str,
    at: str | None,
) -> Response:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        view = view_of(connection, services, switch, position)
        reversed_name = _reversed_name(connection, view.row)
    about = {"past": past, "trail": [SWITCHES], "reversed_name": reversed_name}
    context = {**_context(caller, view, is_past=past is not None), **about}
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


def _reversed_name(connection: Connection, row: SwitchRow) -> str:
    """Return the name of the switch that this one reverses; empty if it reverses none."""
    if row.reverses is None:
        return ""
    return switch_name(name_switches(connection, [row.reverses]).get(row.reverses), row.reverses)


def _context(caller: Caller, view: SwitchView, *, is_past: bool = False) -> Mapping[str, Any]:
    refused = refusal(caller, Action.CHANGE_ESTATE)
    return {
        "poll_interval": None if is_past else view.poll_interval,
        "view": view,
        "report": view.row.report,
        "unreplicated": unreplicated_of(view.row),
        "may_change": may(caller, Action.CHANGE_ESTATE) and not is_past,
        "why_not": None if refused is None else refused.detail,
    }
