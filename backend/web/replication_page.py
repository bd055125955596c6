"""`/clusters/{cluster}/replication`: how well a cluster is replicated, and what to do about it.

It follows by itself; what is observed is not kept, so there is no `?at=`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access import Action, Caller, may, refusal
from backend.domain.errors import NotFound
from backend.domain.leader_elections import PreferredLeadersElected, event_stream
from backend.domain.placement_runs import PlacementState
from backend.queries.broker_presence import read_brokers
from backend.queries.clusters import ClusterRow, get_cluster
from backend.queries.events import newest_of
from backend.queries.naming import streams_of_topics
from backend.queries.placement_policies import find_policy
from backend.queries.placements import list_placements
from backend.queries.replication import find_replication
from backend.web import templates
from backend.web.pages import PageRoute, enter
from backend.web.placement_policy_view import PolicyView
from backend.web.placements_page import PLACEMENTS
from backend.web.replication_view import ReplicationView, elected_said
from backend.web.services import ConsoleServices, Shared, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

REPLICATION = "/clusters/{cluster}/replication"
TEMPLATE = "replication.html"


@router.get(REPLICATION)
def replication_page(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """The page."""
    caller = enter(viewer, Action.READ_ESTATE)
    return templates.page(TEMPLATE, _context(request, services, caller, cluster))


@router.get(REPLICATION + "/-live")
def replication_live(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """What changes on it."""
    caller = enter(viewer, Action.READ_ESTATE)
    return HTMLResponse(templates.titled_block(TEMPLATE, "cockpit", _context(request, services, caller, cluster)))


def _context(request: Request, services: ConsoleServices, caller: Caller, cluster: str) -> dict[str, object]:
    with services.reading() as connection:
        row = existing_cluster(connection, cluster)
        last = newest_of(connection, event_stream(row.name), PreferredLeadersElected.stored_name)
        view = ReplicationView(row=row, found=find_replication(connection, row.kafka_cluster_id))
        newest = next(iter(list_placements(connection, cluster=row.name, most=1)), None)
        waits = newest is not None and newest.proposal is not None and newest.state is PlacementState.PLANNED
        policy = PolicyView(
            policy=find_policy(connection, cluster).policy,
            seen=read_brokers(connection, row.kafka_cluster_id),
            settled=timedelta(seconds=services.config.broker_settled_seconds),
            proposed=newest if waits else None,
        )
        view = replace(view, streams=streams_of_topics(connection, row.name, view.topics_named))
    denied = refusal(caller, Action.CHANGE_ESTATE)
    return {
        **frame(request, caller),
        "view": view,
        "policy": policy,
        "trail": [PLACEMENTS],
        "may_change": may(caller, Action.CHANGE_ESTATE),
        "why_not": None if denied is None else denied.detail,
        "elected": None if last is None else elected_said(last),
    }


def existing_cluster(connection: Connection, cluster: str) -> ClusterRow:
    """Raises NotFound."""
    row = get_cluster(connection, cluster)
    if row is None:
        raise NotFound(f"there is no cluster {cluster[:60]!a}")
    return row
