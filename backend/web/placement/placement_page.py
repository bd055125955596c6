"""`/placements/{id}`: a plan for the replicas of a cluster and its changes; live while a worker computes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, refusal
from backend.domain.base.errors import NotFound
from backend.domain.placement.placement_runs import RUNNING
from backend.queries.base import events
from backend.queries.base.names_of_events import name_placements
from backend.queries.placement import placement_runs
from backend.queries.placement.placements import PlanDocuments, find_placement, read_documents
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.placement.placement_plan_view import Plans, PlanView
from backend.web.placement.placement_view import PLACEMENTS, PlacementView

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PLACEMENT = "/placements/{placement}"
TEMPLATE = "placement.html"
_PLANS = Plans()


def view_of(connection: Connection, placement: str, at: int | None = None) -> PlacementView:
    """Return the view of a placement now, or at an earlier position. Raises NotFound."""
    row = find_placement(connection, placement, at)
    requested_at = events.times_of(connection, [row.requested_at_position])[row.requested_at_position]
    progress = placement_runs.find_progress(connection, placement) if at is None and row.state in RUNNING else None
    return PlacementView(
        row=row,
        requested_at=requested_at,
        now=datetime.now(UTC) if at is None else None,
        named=name_placements(connection, [placement]).get(placement),
        progress=progress,
    )


@router.get(PLACEMENT)
def placement_page(placement: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the page, now or at an earlier position of the event log."""
    return shown_page(request, services, enter(viewer, Action.READ_ESTATE), placement, at)


def shown_page(
    request: Request,
    services: ConsoleServices,
    caller: Caller,
    placement: str,
    at: str | None = None,
    *,
    refused: str | None = None,
    status: int = 200,
) -> Response:
    """Render the page; `refused` is the reason why a requested action was refused."""
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        view = view_of(connection, placement, position)
    plan = None if view.row.digest is None else _plan(services, placement, view.row.digest)
    about = {"plan": plan, "past": past, "refused": refused, "trail": [PLACEMENTS]}
    return templates.page(TEMPLATE, {**frame(request, caller), **_context(caller, view), **about}, status)


@router.get(PLACEMENT + "/-live")
def placement_live(placement: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the live part of the page; once a worker is done, the browser reloads the whole page."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        view = view_of(connection, placement)
    context = {**frame(request, caller), **_context(caller, view), "past": None, "refused": None}
    # The finished page is large and no longer changes, so that it is loaded as a whole.
    headers = {} if view.poll_interval else {"HX-Refresh": "true"}
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", context), headers=headers)


def _plan(services: ConsoleServices, placement: str, digest: str) -> PlanView | None:
    """Return the view of a plan; None if its documents were deleted.

    A caller that waits for another's plan holds no connection.
    """

    def read() -> PlanDocuments:
        with services.reading() as connection:
            return read_documents(connection, placement)

    try:
        return _PLANS.view(placement, digest, read)
    except NotFound:
        return None


def _context(caller: Caller, view: PlacementView) -> Mapping[str, Any]:
    refused = refusal(caller, Action.CHANGE_ESTATE)
    return {
        "poll_interval": view.poll_interval,
        "view": view,
        "may_change": may(caller, Action.CHANGE_ESTATE),
        "why_not": None if refused is None else refused.detail,
    }
