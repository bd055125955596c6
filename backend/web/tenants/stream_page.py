"""`/tenants/{t}/{i}/{e}/{stream}`: a stream's technical names and applied state, by cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller
from backend.domain.names.names import StreamName
from backend.queries.base.naming import leaf_formats
from backend.queries.tenants.streams import find_stream
from backend.queries.topics.stream_replication import stream_replication
from backend.queries.topics.topic_drift import stream_drift
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tenants.stream_view import view
from backend.web.tenants.tenants_page import ENVIRONMENT

router = APIRouter(include_in_schema=False, route_class=PageRoute)

STREAM = ENVIRONMENT + "/{stream}"
Named = Annotated[StreamName, Depends(StreamName)]
"""Stream that a path names."""
TEMPLATE = "stream.html"


@router.get(STREAM)
def stream_page(name: Named, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show one stream."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        context = _context(connection, caller, name, at)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(STREAM + "/-applied")
def stream_applied(name: Named, services: Shared, viewer: Viewer) -> Response:
    """Return the applied state alone; the page requests it until everything is applied."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        context = _context(connection, caller, name, None)
    return HTMLResponse(templates.block(TEMPLATE, "applied", context))


def _context(connection: Connection, caller: Caller, name: StreamName, at: str | None) -> Mapping[str, Any]:
    position, past = requested_position(connection, caller, at)
    row = find_stream(connection, name, position)
    above = f"/tenants/{name.tenant}/{name.instance}/{name.environment}"
    here = f"{above}/{name.stream}"
    offers = [
        offer(caller, Action.READ_MESSAGES, name.tenant, "Messages", f"{here}/-messages"),
        offer(caller, Action.DECLARE_STREAMS, name.tenant, "Change", f"{here}/-change"),
        offer(caller, Action.MANAGE_TENANT, name.tenant, "Delete", f"{here}/-delete"),
    ]
    return {
        "past": past,
        "stream": view(row, leaf_formats(connection, row.tree, position)),
        "replication": stream_replication(connection, row) if past is None else {},
        "drift": stream_drift(connection, row) if past is None else [],
        "above": above,
        "here": here,
        "offers": offers,
        "reasons": reasons(offers),
    }
