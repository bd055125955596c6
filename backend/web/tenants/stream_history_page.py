"""`/tenants/{t}/{i}/{e}/{stream}/-history`: the events about a stream in sentences, the newest first."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.domain.access.access import Action, may, tenants_read
from backend.queries.tenants.stream_history import MOST_LOOKED_AT, stream_events
from backend.queries.tenants.streams import find_stream
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.frame.timeline_view import timeline_items
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.tenants.stream_tabs import HISTORY, stream_address, stream_top

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 100
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


@router.get(STREAM + "/-history")
def history_page(
    name: Named, request: Request, services: Shared, viewer: Viewer, before: Before = None, at: At = None
) -> Response:
    """Show the events, or those below a position; now or up to an earlier position."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    tenants = tenants_read(caller)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        row = find_stream(connection, name, position)
        found = stream_events(
            connection,
            name,
            MOST_SHOWN + 1,
            before=before,
            at=position,
            clusters=list(row.technical_names) if tenants is None else (),
            tenants=tenants,
        )
        items = timeline_items(connection, found[:MOST_SHOWN])
    here = f"{stream_address(name)}/-history"
    context = {
        "past": past,
        "top": stream_top(caller, name, HISTORY),
        "items": items,
        "earlier": f"{here}?before={items[-1].position}" if len(found) > MOST_SHOWN else None,
        "newest": here if before is not None else None,
        "sees_all": may(caller, Action.READ_ESTATE),
        "looked_at": MOST_LOOKED_AT,
        "timeline_of": f"/timeline?{urlencode({'stream': f'tenant-{name.tenant}'})}",
    }
    return templates.page("stream_history.html", {**frame(request, caller), **context})
