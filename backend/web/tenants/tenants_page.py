"""`/tenants`: the tenants, one tenant with its instances, and an environment with its streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
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
from backend.queries.tenants.stream_lines import stream_lines
from backend.queries.tree.trees import tree_names
from backend.web.frame import templates
from backend.web.frame.pages import Offer, PageRoute, enter, enter_in_some_tenant, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.switch.active_cluster_view import active_cluster_views
from backend.web.tables.table_query import TableParameters, TableQuery
from backend.web.tenants.application_view import application_view
from backend.web.tenants.stream_view import leftovers, view
from backend.web.tenants.tenant_tables import APPLICATIONS, MEMBERS, TENANTS, TenantView, streams_table

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST_APPLICATIONS = 1000
TENANT = "/tenants/{tenant}"
INSTANCE = TENANT + "/{instance}"
ENVIRONMENT = INSTANCE + "/{environment}"


@router.get("/tenants")
def tenants_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show the tenants that the viewer may read."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    known = caller.tenants_for(Action.READ_TENANT)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        rows = tenants.list_tenants(connection, position)
        names = [row.name for row in rows if known is None or row.name in known]
        counts = streams.count_streams(connection, at=position)
    totals, places = Counter[str](), Counter[str]()
    for (tenant, *_), count in counts.items():
        totals[tenant] += count
        places[tenant] += 1
    views = [TenantView(name, places[name], totals[name], caller.tenants.get(name)) for name in names]
    offers = [offer(caller, Action.CHANGE_ESTATE, None, "Create tenant", "/tenants/-new")]
    if may_somewhere(caller, Action.DECLARE_STREAMS) and names:
        offers.insert(0, Offer("Declare stream", "/tenants/-stream", None))
    context = {
        "past": past,
        "table": TENANTS.view(views, query),
        "offers": offers,
        "reasons": reasons(offers),
    }
    return templates.page("tenants.html", {**frame(request, caller), **context})


@router.get(TENANT)
def tenant_page(
    tenant: str, request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
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
        "members": MEMBERS.view(members, query),
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
    query: TableParameters,
    at: At = None,
) -> Response:
    """Show one environment: its offset rules, streams and applications."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        context = _environment(connection, caller, (tenant, instance, environment), query, at)
    return templates.page("environment.html", {**frame(request, caller), **context})


@router.get(ENVIRONMENT + "/-streams")
def environment_streams(
    tenant: str, instance: str, environment: str, services: Shared, viewer: Viewer, query: TableParameters
) -> Response:
    """Return the page's streams alone; the page requests them while topics are being applied."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        context = _environment(connection, caller, (tenant, instance, environment), query, None)
    return HTMLResponse(templates.block("environment.html", "streams", context))


def _environment(
    connection: Connection, caller: Caller, place: Place, query: TableQuery, at: str | None
) -> Mapping[str, Any]:
    position, past = requested_position(connection, caller, at)
    row = tenants.find_environment(connection, *place, position)
    here = f"/tenants/{'/'.join(place)}"
    of_page = query.of(here)
    table = streams_table(connection, place, position).view(stream_lines(connection, place, position), of_page)
    names = [each.name for each in table.rows]
    found = streams.list_streams(connection, position, *place, names=names) if names else []
    by_name = {each.name: view(each) for each in found}
    shown = [by_name[name] for name in names]
    applications = list_applications(connection, position, *place, limit=_MOST_APPLICATIONS + 1)
    removing = leftovers(connection, *place) if past is None else []
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
        "table": table,
        "streams": shown,
        "removing": removing,
        "applications": APPLICATIONS.view(
            [application_view(each) for each in applications[:_MOST_APPLICATIONS]], of_page
        ),
        "more_applications": len(applications) > _MOST_APPLICATIONS,
        "most_applications": _MOST_APPLICATIONS,
        "unsettled": past is None and (bool(removing) or any(not each.settled for each in shown)),
        "offers": offers,
        "reasons": reasons(offers),
    }
