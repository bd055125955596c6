"""`/tenants`: the tenants, one tenant with its instances, and an environment with its streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, may_somewhere
from backend.domain.switch.switch_facts import Place
from backend.domain.tenants.application import GrantState
from backend.queries.access.users import list_members
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import moving_switches
from backend.queries.tenants import streams, tenants
from backend.queries.tenants.applications import list_applications, list_grants
from backend.queries.tree.trees import tree_names
from backend.web.frame import templates
from backend.web.frame.pages import Offer, PageRoute, enter, enter_in_some_tenant, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.switch.active_cluster_view import active_cluster_views
from backend.web.tenants.application_view import application_view
from backend.web.tenants.stream_view import leftovers, view

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 200
TENANT = "/tenants/{tenant}"
INSTANCE = TENANT + "/{instance}"
ENVIRONMENT = INSTANCE + "/{environment}"


@router.get("/tenants")
def tenants_page(
    request: Request,
    services: Shared,
    viewer: Viewer,
    after: Annotated[str, Query(max_length=300)] = "",
    at: At = None,
) -> Response:
    """Show the tenants that the viewer may read."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    known = caller.tenants_for(Action.READ_TENANT)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        rows = tenants.list_tenants(connection, position)
        names = [row.name for row in rows if known is None or row.name in known]
        following = [name for name in names if name > after]
        counts = streams.count_streams(connection, at=position)
    shown = following[:MOST_SHOWN]
    totals = {name: sum(n for (tenant, *_), n in counts.items() if tenant == name) for name in shown}
    places = {name: sum(tenant == name for tenant, *_ in counts) for name in shown}
    offers = [offer(caller, Action.CHANGE_ESTATE, None, "Create tenant", "/tenants/-new")]
    if may_somewhere(caller, Action.DECLARE_STREAMS) and shown:
        offers.insert(0, Offer("Declare stream", "/tenants/-stream", None))
    context = {
        "past": past,
        "tenants": [(name, places[name], totals[name], caller.tenants.get(name)) for name in shown],
        "following": shown[-1] if len(following) > MOST_SHOWN else None,
        "offers": offers,
        "reasons": reasons(offers),
    }
    return templates.page("tenants.html", {**frame(request, caller), **context})


@router.get(TENANT)
def tenant_page(tenant: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show one tenant: its instances, their trees and environments, and its members."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        tenants.find_tenant(connection, tenant, position)
        counts = streams.count_streams(connection, tenant, position)
        instances = [
            (row, [(each, counts.get((tenant, row.name, each.name), 0)) for each in found])
            for row in tenants.list_instances(connection, tenant, position)
            for found in [tenants.list_environments(connection, tenant, row.name, position)]
        ]
        trees = tree_names(connection, position)
        moving = moving_switches(connection) if position is None else ()
        places = active_cluster_views(list_active(connection, position, tenant=tenant), moving)
        waiting = len(list_grants(connection, tenant, position, state=GrantState.REQUESTED))
        members = list_members(connection, tenant, position)
    here = f"/tenants/{tenant}"
    offers = [
        offer(caller, Action.MANAGE_TENANT, tenant, "Create instance", f"{here}/-new"),
        offer(caller, Action.MANAGE_MEMBERS, tenant, "Add member", f"{here}/-members/-new"),
    ]
    context = {
        "past": past,
        "tenant": tenant,
        "here": here,
        "instances": instances,
        "active": {each.place[1:]: each for each in places},
        "trees": sorted(trees),
        "waiting": waiting,
        "may_decide": past is None and may(caller, Action.DECIDE_ACCESS, tenant),
        "membership": caller.tenants.get(tenant),
        "offers": offers,
        "reasons": reasons(offers),
        "may_manage": past is None and offers[0].refused is None,
        "members": members[:MOST_SHOWN],
        "more_members": len(members) > MOST_SHOWN,
        "may_manage_members": past is None and offers[1].refused is None,
    }
    return templates.page("tenant.html", {**frame(request, caller), **context})


@router.get(INSTANCE)
def instance_page(tenant: str, instance: str, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Redirect to the instance's part of its tenant's page."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        position, _ = requested_position(connection, caller, at)
        tenants.find_instance(connection, tenant, instance, position)
    then = "" if position is None else f"?at={position}"
    return RedirectResponse(f"/tenants/{tenant}{then}#{instance}", 303)


@router.get(ENVIRONMENT)
def environment_page(
    tenant: str,
    instance: str,
    environment: str,
    request: Request,
    services: Shared,
    viewer: Viewer,
    after: Annotated[str, Query(max_length=300)] = "",
    at: At = None,
) -> Response:
    """Show one environment: its offset rules, streams and applications."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        context = _environment(connection, caller, (tenant, instance, environment), after, at)
    return templates.page("environment.html", {**frame(request, caller), **context})


@router.get(ENVIRONMENT + "/-streams")
def environment_streams(
    tenant: str,
    instance: str,
    environment: str,
    services: Shared,
    viewer: Viewer,
    after: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """Return the page's streams alone; the page requests them while topics are being applied."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        context = _environment(connection, caller, (tenant, instance, environment), after, None)
    return HTMLResponse(templates.block("environment.html", "streams", context))


def _environment(
    connection: Connection, caller: Caller, place: Place, after: str, at: str | None
) -> Mapping[str, Any]:
    position, past = requested_position(connection, caller, at)
    row = tenants.find_environment(connection, *place, position)
    found = streams.list_streams(connection, position, *place, after=after or None, limit=MOST_SHOWN + 1)
    shown = [view(each) for each in found[:MOST_SHOWN]]
    applications = list_applications(connection, position, *place, limit=MOST_SHOWN)
    removing = leftovers(connection, *place) if past is None else []
    here = f"/tenants/{'/'.join(place)}"
    tenant = place[0]
    offers = [
        offer(caller, Action.DECLARE_STREAMS, tenant, "Declare stream", f"{here}/-new"),
        offer(caller, Action.DECLARE_STREAMS, tenant, "Declare application", f"{here}/-applications/-new"),
        offer(caller, Action.MANAGE_TENANT, tenant, "Change environment", f"{here}/-change"),
    ]
    return {
        "past": past,
        "environment": row,
        "here": here,
        "after": after,
        "streams": shown,
        "removing": removing,
        "following": shown[-1].row.name if len(found) > MOST_SHOWN else None,
        "applications": [application_view(each) for each in applications],
        "more_applications": len(applications) == MOST_SHOWN,
        "unsettled": past is None and (bool(removing) or any(not each.settled for each in shown)),
        "offers": offers,
        "reasons": reasons(offers),
    }
