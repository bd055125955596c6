"""`/placements`: all placement plans, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.domain.access.access import Action
from backend.queries.base import events
from backend.queries.base.names_of_events import name_placements
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.placement.placements import list_placements
from backend.queries.replication.replication import list_replication
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.placement.placement_view import PlacementView
from backend.web.replication.replication_view import ReplicationView

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 200


@router.get("/placements")
def placements_page(request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show the page, now or at an earlier position of the event log."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        found = list_placements(connection, position, most=MOST_SHOWN + 1)
        shown = found[:MOST_SHOWN]
        times = events.times_of(connection, [row.requested_at_position for row in shown])
        named = name_placements(connection, [row.id for row in shown])
        clusters = list_clusters(connection, position)
        health = _health(connection, clusters) if position is None else ()
    now = datetime.now(UTC) if position is None else None
    offers = [offer(caller, Action.CHANGE_ESTATE, None, "Create plan", "/placements/-new")]
    context = {
        "placements": [
            PlacementView(row=row, requested_at=times[row.requested_at_position], now=now, named=named.get(row.id))
            for row in shown
        ],
        "more": len(found) > MOST_SHOWN,
        "has_clusters": bool(clusters),
        "health": health,
        "more_clusters": len(clusters) - MOST_SHOWN,
        "offers": offers,
        "reasons": reasons(offers),
        "past": past,
    }
    return templates.page("placements.html", {**frame(request, caller), **context})


def _health(connection: Connection, clusters: Sequence[ClusterRow]) -> list[ReplicationView]:
    """Return the clusters' current replication; earlier positions have none."""
    shown = clusters[:MOST_SHOWN]
    seen = list_replication(connection, [row.kafka_cluster_id for row in shown])
    return [ReplicationView(row=row, found=found) for row, found in zip(shown, seen, strict=True)]
