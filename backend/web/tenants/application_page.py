"""`/tenants/{t}/{i}/{e}/-applications/{application}`: an application's grants, names and state on clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller
from backend.domain.names.names import ApplicationName
from backend.queries.tenants.applications import find_application
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tenants.application_view import application_view
from backend.web.tenants.tenants_page import ENVIRONMENT

router = APIRouter(include_in_schema=False, route_class=PageRoute)

APPLICATIONS = ENVIRONMENT + "/-applications"
APPLICATION = APPLICATIONS + "/{application}"
Named = Annotated[ApplicationName, Depends(ApplicationName)]
"""Application that a path names."""
TEMPLATE = "application.html"


@router.get(APPLICATION)
def application_page(name: Named, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show one application."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        context = application_context(connection, caller, name, at)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(APPLICATION + "/-applied")
def application_applied(name: Named, services: Shared, viewer: Viewer) -> Response:
    """Return the applied state alone; the page requests it until everything is applied."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        context = application_context(connection, caller, name)
    return HTMLResponse(templates.block(TEMPLATE, "applied", context))


def address_of(name: ApplicationName) -> str:
    """Return the address of an application's page."""
    return f"/tenants/{name.tenant}/{name.instance}/{name.environment}/-applications/{name.application}"


def application_context(
    connection: Connection, caller: Caller, name: ApplicationName, at: str | None = None
) -> Mapping[str, Any]:
    """Return what an application's page shows. Raises NotFound."""
    here = address_of(name)
    position, past = requested_position(connection, caller, at)
    row = find_application(connection, name, position)
    offers = [
        offer(caller, Action.DECLARE_STREAMS, name.tenant, "Change", f"{here}/-change"),
        offer(caller, Action.MANAGE_TENANT, name.tenant, "Issue password", f"{here}/-credentials"),
        offer(caller, Action.DECLARE_STREAMS, name.tenant, "Delete", f"{here}/-delete"),
    ]
    if row.credentials is not None:
        revoke = offer(caller, Action.MANAGE_TENANT, name.tenant, "Revoke password", f"{here}/-revoke")
        offers.insert(2, revoke)
    return {
        "past": past,
        "application": application_view(row),
        "above": here.rpartition("/-applications")[0],
        "here": here,
        "offers": offers,
        "reasons": reasons(offers),
        "secret": "",
        "done": "",
        "error": "",
    }
