"""The Overview page at `/` and `/overview`, and its live part at `/overview/-live`.

Operators and viewers get the estate, members of tenants what is theirs. What is read is shared by all viewers of
the same scope for a second, until the next event; what a viewer may do is added afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, may_somewhere
from backend.domain.overview.estate_health import estate_health
from backend.domain.overview.first_run import FirstCluster, FirstRunFacts, Step, first_run
from backend.domain.overview.tenant_health import tenant_health
from backend.queries.base.events import head
from backend.queries.overview.estate_state import EstateState, read_estate
from backend.queries.overview.first_run_facts import first_arrival, first_places, has_copied, last_produced
from backend.queries.overview.recent_events import recent_events, recent_events_of
from backend.queries.overview.tenant_state import read_tenants
from backend.web.frame import templates
from backend.web.frame.page_cache import cached
from backend.web.frame.pages import Offer, PageRoute, enter_in_some_tenant, offer
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.history.recent_sparklines import RecentSparklines
from backend.web.overview.cluster_cards import COMPACT_FROM, cluster_cards
from backend.web.overview.problem_view import health_view
from backend.web.overview.small_tree import small_tree
from backend.web.overview.today_view import NAMES, happened, since, timeline_since

router = APIRouter(include_in_schema=False, route_class=PageRoute)

OVERVIEW = "/overview"
TEMPLATE = "overview.html"
_TRENDS = RecentSparklines("cluster.bytes_in_per_second")
All = Annotated[bool, Query(alias="all")]


@router.get("/")
def first_page(request: Request, services: Shared, viewer: Viewer, everything: All = False) -> Response:
    """Show the Overview page; callers who may see nothing of it are redirected to their account."""
    if viewer is not None and not may_somewhere(viewer, Action.READ_TENANT):
        return RedirectResponse("/account", 303)
    return overview_page(request, services, viewer, everything)


@router.get(OVERVIEW)
def overview_page(request: Request, services: Shared, viewer: Viewer, everything: All = False) -> Response:
    """Show the verdict on the estate, or on the viewer's tenants, with problems, clusters, and the last day."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    context = _context(request, services, caller, everything)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(OVERVIEW + "/-live")
def overview_live(request: Request, services: Shared, viewer: Viewer, everything: All = False) -> Response:
    """Return the page's live part."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    context = _context(request, services, caller, everything)
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", context))


def _context(request: Request, services: ConsoleServices, caller: Caller, everything: bool) -> dict[str, Any]:
    with services.looking() as connection:
        newest = head(connection).position
    # Whoever has just changed something sees it: an event makes another answer.
    if may(caller, Action.READ_ESTATE):
        found = cached(request, f"overview at {newest}", lambda: _of_estate(services))
    else:
        names = caller.tenants_for(Action.READ_TENANT) or frozenset()
        # No name of a tenant contains a space.
        of = " ".join(sorted(names))
        found = cached(request, f"overview at {newest} of {of}", lambda: _of_tenants(services, names))
    steps: tuple[Step, ...] = found["steps"]
    view = health_view(found["health"], caller, is_empty=found["is_empty"], shows_all=everything)
    return {**found, "view": view, "ways": _ways(caller, steps), "everything": everything}


def _ways(caller: Caller, steps: tuple[Step, ...]) -> dict[int, Offer]:
    """Return the links of steps by number, each with the reason if the viewer may not use it."""
    return {
        step.number: offer(caller, way.action, way.tenant, way.label, way.address)
        for step in steps
        if (way := step.way) is not None
    }


def _of_estate(services: ConsoleServices) -> Mapping[str, Any]:
    with services.reading() as connection:
        state = read_estate(connection)
        facts = state.facts
        trends = _TRENDS.read(connection, [row.name for row in state.clusters])
        today = happened(connection, recent_events(connection, since(facts.now), NAMES))
        steps = _first_run(connection, state)
    tree = None
    if state.tree is not None:
        tree = small_tree(state.tree.shape, state.clusters, state.distributors)
    return {
        "is_estate": True,
        "health": estate_health(facts),
        "is_empty": not facts.clusters,
        "cards": cluster_cards(state, trends),
        "is_compact": len(state.clusters) >= COMPACT_FROM,
        "tree": tree,
        "today": today,
        "day_address": timeline_since(since(facts.now)),
        "steps": steps,
    }


def _first_run(connection: Connection, state: EstateState) -> tuple[Step, ...]:
    places = first_places(connection)
    stream = places.name if places.stream is not None else None
    arrival = None if stream is None else first_arrival(connection, stream)
    return first_run(
        FirstRunFacts(
            now=state.facts.now,
            clusters=[
                FirstCluster(
                    name=row.name, is_online=row.state != "offline", brokers=row.brokers, reason=row.reason
                )
                for row in state.clusters
            ],
            has_tree=state.tree is not None,
            places=places,
            arrival=arrival,
            has_copied=arrival is None and has_copied(connection, state.distributors),
            produced=None if stream is None else last_produced(connection, stream),
        )
    )


def _of_tenants(services: ConsoleServices, names: frozenset[str]) -> Mapping[str, Any]:
    with services.reading() as connection:
        facts = read_tenants(connection, names)
        today = happened(connection, recent_events_of(connection, since(facts.now), NAMES, names))
        places = first_places(connection, names)
        stream = places.name if places.stream is not None else None
        steps = first_run(
            FirstRunFacts(
                now=facts.now,
                clusters=None,
                places=places,
                arrival=None if stream is None else first_arrival(connection, stream, names),
                produced=None if stream is None else last_produced(connection, stream),
            )
        )
    return {
        "is_estate": False,
        "health": tenant_health(facts),
        "is_empty": not facts.streams,
        "tenants": sorted(names),
        "today": today,
        "day_address": timeline_since(since(facts.now)),
        "steps": steps,
    }
