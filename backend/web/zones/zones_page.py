"""`/zones`: the zone router, live; `?at=` shows past epochs only, as the history of nodes is not stored."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from backend.domain.access.access import Action, Caller
from backend.domain.history.metrics import ALL
from backend.queries.zones.zones import read_past_epochs, read_zones
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.history.chart import SMALL, Chart
from backend.web.history.measure_charts import DEFAULT_RANGE, read_charts, window
from backend.web.zones.zones_view import ZonesView

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ZONES = "/zones"
TEMPLATE = "zones.html"


@router.get(ZONES)
def zones_page(request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the page, now or as of an earlier position."""
    caller = enter(viewer, Action.READ_ESTATE)
    context = _context(request, services, caller, at)
    return templates.page(TEMPLATE, {**context, "figures": [] if context["past"] else _charts(services)})


@router.get(ZONES + "/-live")
def zones_live(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the part of the page that is refreshed."""
    caller = enter(viewer, Action.READ_ESTATE)
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", _context(request, services, caller)))


def _charts(services: ConsoleServices) -> list[Chart]:
    with services.reading() as connection:
        return read_charts(connection, "zones.cross_zone_bytes", [ALL], window(DEFAULT_RANGE), size=SMALL)


def _context(
    request: Request, services: ConsoleServices, caller: Caller, at: str | None = None
) -> dict[str, object]:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        seen = read_zones(connection) if position is None else read_past_epochs(connection, position)
    return {**frame(request, caller), "view": ZonesView(seen), "past": past}
