"""`/clusters/{cluster}/replication`: health of a cluster's replication, with advice.

The page refreshes itself. As of an earlier position it shows the last observation before it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, refusal
from backend.domain.base.errors import NotFound
from backend.domain.placement.leader_elections import PreferredLeadersElected, event_stream
from backend.domain.placement.placement_runs import PlacementState
from backend.queries.base.events import newest_of
from backend.queries.base.names_of_events import name_placements
from backend.queries.base.naming import streams_of_topics
from backend.queries.clusters.broker_presence import read_brokers
from backend.queries.clusters.clusters import ClusterRow, get_cluster
from backend.queries.placement.placement_policies import find_policy
from backend.queries.placement.placements import list_placements
from backend.queries.replication.replication import find_past_replication, find_replication
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.past_observation import past_observation
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.placement.placement_policy_view import PolicyView
from backend.web.replication.replication_view import ReplicationView, elected_said
from backend.web.words.names import placement_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

REPLICATION = "/clusters/{cluster}/replication"
TEMPLATE = "replication.html"


@router.get(REPLICATION)
def replication_page(cluster: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the page, now or as of an earlier position."""
    caller = enter(viewer, Action.READ_ESTATE)
    return templates.page(TEMPLATE, _context(request, services, caller, cluster, at))


@router.get(REPLICATION + "/-live")
def replication_live(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Return the part of the page that is refreshed."""
    caller = enter(viewer, Action.READ_ESTATE)
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", _context(request, services, caller, cluster)))


def _context(
    request: Request, services: ConsoleServices, caller: Caller, cluster: str, at: str | None = None
) -> dict[str, object]:
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        row = existing_cluster(connection, cluster, position)
        last = newest_of(connection, event_stream(row.name), PreferredLeadersElected.stored_name, position)
        view = _view(connection, caller, row, position)
        policy = _policy(connection, row, position, timedelta(seconds=services.config.broker_settled_seconds))
    denied = refusal(caller, Action.CHANGE_ESTATE) if past is None else None
    return {
        **frame(request, caller),
        "past": past,
        **({} if view.then is None else {"shown_then": view.then.sentence}),
        "view": view,
        "policy": policy,
        "trail": cluster_trail(row.name),
        "may_change": past is None and may(caller, Action.CHANGE_ESTATE),
        "why_not": None if denied is None else denied.detail,
        "elected": None if last is None else elected_said(last),
    }


def _view(connection: Connection, caller: Caller, row: ClusterRow, position: int | None) -> ReplicationView:
    then = past_observation(connection, caller, position)
    if then is None:
        found = find_replication(connection, row.kafka_cluster_id)
    else:
        found = find_past_replication(connection, row.kafka_cluster_id, then.snapshot)
    view = ReplicationView(row=row, found=found, then=then)
    return replace(view, streams=streams_of_topics(connection, row.name, view.topics_named, position))


def _policy(connection: Connection, row: ClusterRow, position: int | None, settled: timedelta) -> PolicyView:
    newest = next(iter(list_placements(connection, position, cluster=row.name, most=1)), None)
    waits = newest is not None and newest.proposal is not None and newest.state is PlacementState.PLANNED
    seen = read_brokers(connection, row.kafka_cluster_id)
    named = name_placements(connection, [newest.id]) if newest is not None and waits else {}
    return PolicyView(
        policy=find_policy(connection, row.name, position).policy,
        # Brokers' arrivals and departures are not stored; the observation itself is shown above.
        seen=seen if position is None else replace(seen, brokers=()),
        settled=settled,
        proposed=newest if waits else None,
        proposed_name="" if newest is None else placement_number(named.get(newest.id), newest.id),
    )


def cluster_trail(cluster: str) -> list[tuple[str, str]]:
    """Return the pages above those of a cluster's replication."""
    return [("Clusters", "/clusters"), (cluster, f"/clusters/{cluster}")]


def existing_cluster(connection: Connection, cluster: str, at: int | None = None) -> ClusterRow:
    """Return a cluster. Raises NotFound."""
    row = get_cluster(connection, cluster, at)
    if row is None:
        raise NotFound(f"there is no cluster {cluster[:60]!r}")
    return row
