"""`/tenants/{t}/{i}/{e}/{stream}`: a stream on every cluster: its state, figures, producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.cluster_requests.stream_figures import FiguresPlace, figures_places
from backend.domain.access.access import Action, Caller, may
from backend.domain.names.names import StreamName
from backend.domain.switch.switch_facts import Place
from backend.domain.tenants.application import CONSUME, PRODUCE, GrantState
from backend.queries.base.naming import leaf_formats
from backend.queries.offsets.observed_groups import GroupRow, GroupsWanted, list_groups
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.discovery_clients import ClientRow, list_clients
from backend.queries.switch.switches import held_environments
from backend.queries.tenants.applications import GrantRow, list_grants
from backend.queries.tenants.streams import find_stream
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.offsets.group_words import LABELS, severity
from backend.web.offsets.groups_page import group_address
from backend.web.tenants.stream_figures_view import FiguresView, read_view
from backend.web.tenants.stream_tabs import OVERVIEW, stream_address, stream_top
from backend.web.tenants.stream_view import view
from backend.web.tenants.tenants_page import ENVIRONMENT

router = APIRouter(include_in_schema=False, route_class=PageRoute)

STREAM = ENVIRONMENT + "/{stream}"
Named = Annotated[StreamName, Depends(StreamName)]
"""Stream that a path names."""
TEMPLATE = "stream.html"
MOST_USERS = 8
"""Applications, groups and clients of each kind that the first page names."""
_PRODUCER = "producer"


@dataclass(frozen=True, kw_only=True)
class ApplicationLink:
    """An application with a right on the stream; without an address, the viewer may not see its page."""

    name: str
    address: str | None


@dataclass(frozen=True, kw_only=True)
class StreamUsers:
    """Known producers and consumers of a stream: at most `MOST_USERS` of each, and whether there are more."""

    producers: Sequence[ApplicationLink]
    more_producers: int
    consumers: Sequence[ApplicationLink]
    more_consumers: int
    groups: Sequence[GroupRow]
    more_groups: bool
    clients: Sequence[ClientRow]
    """Producers of the environment that report to discovery; to which streams they produce is not known."""
    more_clients: bool


@router.get(STREAM)
def stream_page(
    name: Named, request: Request, services: Shared, viewer: Viewer, figures: str = "", at: At = None
) -> Response:
    """Show one stream; `figures`: read its figures at once, for browsers without JavaScript."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        context = _context(connection, caller, name, at)
        is_now = context["past"] is None
        users = _users(connection, caller, name) if is_now else None
        ask = figures_facts(connection, name) if is_now and figures else None
    shown = {"users": users, "labels": LABELS, "severity": severity, "address": group_address}
    seen = None if ask is None else figures_view(request, caller, name, ask)
    return templates.page(TEMPLATE, {**frame(request, caller), **context, **shown, "figures": seen})


@router.get(STREAM + "/-applied")
def stream_applied(name: Named, services: Shared, viewer: Viewer) -> Response:
    """Return the applied state alone; the page requests it until everything is applied."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        context = _context(connection, caller, name, None)
    return HTMLResponse(templates.block(TEMPLATE, "applied", context))


@router.get(STREAM + "/-figures")
def stream_figures(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the figures alone; the page requests them once it is shown, and again every few seconds."""
    caller = enter(viewer, Action.READ_TENANT, name.tenant)
    with services.reading() as connection:
        ask = figures_facts(connection, name)
    seen = figures_view(request, caller, name, ask)
    return HTMLResponse(templates.block(TEMPLATE, "figures", {"figures": seen, "here": stream_address(name)}))


@dataclass(frozen=True, kw_only=True)
class FiguresFacts:
    """Facts of the control plane that reading figures needs; no connection is held meanwhile."""

    places: Sequence[FiguresPlace]
    main: str | None


def figures_facts(connection: Connection, name: StreamName) -> FiguresFacts:
    """Read the facts. Raises NotFound."""
    row = find_stream(connection, name)
    place: Place = (name.tenant, name.instance, name.environment)
    active = list_active(connection, places=[place])
    main = next((each.cluster for each in active if each.cluster is not None), None)
    return FiguresFacts(places=figures_places(connection, row), main=main)


def figures_view(request: Request, caller: Caller, name: StreamName, ask: FiguresFacts) -> FiguresView:
    """Read the figures of a stream for one viewer. Raises MessagesBusy."""
    return read_view(request, caller, str(name), ask.places, ask.main)


def _context(connection: Connection, caller: Caller, name: StreamName, at: str | None) -> Mapping[str, Any]:
    position, past = requested_position(connection, caller, at)
    row = find_stream(connection, name, position)
    return {
        "past": past,
        "top": stream_top(caller, name, OVERVIEW),
        "here": stream_address(name),
        "stream": view(row, leaf_formats(connection, row.tree, position)),
    }


def _users(connection: Connection, caller: Caller, name: StreamName) -> StreamUsers:
    granted = list_grants(connection, name.tenant, state=GrantState.GRANTED, stream=str(name))
    wanted = GroupsWanted(
        stream=str(name),
        tenants=caller.tenants_for(Action.READ_TENANT),
        by_lag=True,
        limit=MOST_USERS + 1,
        holding=held_environments(connection, numbered=may(caller, Action.READ_ESTATE)),
    )
    groups = list_groups(connection, wanted)
    place: Place = (name.tenant, name.instance, name.environment)
    clients = list_clients(connection, [place], role=_PRODUCER, most=MOST_USERS + 1)
    producers = [_application(caller, each) for each in granted if each.operation == PRODUCE]
    consumers = [_application(caller, each) for each in granted if each.operation == CONSUME]
    return StreamUsers(
        producers=producers[:MOST_USERS],
        more_producers=max(0, len(producers) - MOST_USERS),
        consumers=consumers[:MOST_USERS],
        more_consumers=max(0, len(consumers) - MOST_USERS),
        groups=groups[:MOST_USERS],
        more_groups=len(groups) > MOST_USERS,
        clients=clients[:MOST_USERS],
        more_clients=len(clients) > MOST_USERS,
    )


def _application(caller: Caller, grant: GrantRow) -> ApplicationLink:
    place = f"/tenants/{grant.tenant}/{grant.instance}/{grant.environment}"
    is_seen = may(caller, Action.READ_TENANT, grant.tenant)
    return ApplicationLink(
        name=grant.principal, address=f"{place}/-applications/{grant.application}" if is_seen else None
    )
