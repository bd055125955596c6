"""`/zones`: the zone router. It follows by itself; what nodes report is not kept, so there is no `?at=`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from backend.domain.access import Action, Caller
from backend.queries.zones import read_zones
from backend.web import templates
from backend.web.pages import PageRoute, enter
from backend.web.services import ConsoleServices, Shared, Viewer, frame
from backend.web.zones_view import ZonesView

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ZONES = "/zones"
TEMPLATE = "zones.html"


@router.get(ZONES)
def zones_page(request: Request, services: Shared, viewer: Viewer) -> Response:
    """The page."""
    caller = enter(viewer, Action.READ_ESTATE)
    return templates.page(TEMPLATE, _context(request, services, caller))


@router.get(ZONES + "/-live")
def zones_live(request: Request, services: Shared, viewer: Viewer) -> Response:
    """What changes on it."""
    caller = enter(viewer, Action.READ_ESTATE)
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", _context(request, services, caller)))


def _context(request: Request, services: ConsoleServices, caller: Caller) -> dict[str, object]:
    with services.reading() as connection:
        view = ZonesView(read_zones(connection))
    return {**frame(request, caller), "view": view}
