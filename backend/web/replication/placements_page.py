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
from backend.web.tables.table import Column, Table
from backend.web.tables.table_query import TableParameters

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_READ = 500
_PLACEMENTS = Table[PlacementView](
    "placements",
    "plans",
    (
        Column("id", "Placement", lambda each: each.short_name, lambda each: f"{each.short_name} {each.row.id}"),
        Column("cluster", "Cluster", lambda each: each.row.cluster),
        Column("state", "State", lambda each: each.label),
        Column("requested", "Requested", lambda each: each.requested_at, time=True),
        Column("moves", "Replica moves", lambda each: each.figure("moves"), number=True),
        Column("minimum", "Minimum moves", lambda each: each.figure("lower_bound"), number=True),
        Column("result", "Result", lambda each: each.result),
    ),
    sort="-requested",
    within="placements-part",
)
_CLUSTERS = Table[ReplicationView](
    "clusters",
    "clusters",
    (
        Column("name", "Cluster", lambda each: each.row.name),
        Column("state", "Replication", lambda each: each.state),
        Column(
            "alert",
            "Most urgent alert",
            lambda each: each.reason or (each.alerts[0].title if each.alerts else None),
        ),
        Column("observed", "Observed", lambda each: each.found.observed_at, time=True),
    ),
    prefix="clusters",
    sort="name",
    within="clusters-part",
)


@router.get("/placements")
def placements_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show the page, now or at an earlier position of the event log."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        found = list_placements(connection, position, most=MOST_READ + 1)
        shown = found[:MOST_READ]
        times = events.times_of(connection, [row.requested_at_position for row in shown])
        named = name_placements(connection, [row.id for row in shown])
        clusters = list_clusters(connection, position)
        health = _health(connection, clusters) if position is None else []
    now = datetime.now(UTC) if position is None else None
    views = [
        PlacementView(row=row, requested_at=times[row.requested_at_position], now=now, named=named.get(row.id))
        for row in shown
    ]
    offers = [offer(caller, Action.CHANGE_ESTATE, None, "Create plan", "/placements/-new")]
    context = {
        "table": _PLACEMENTS.view(views, query),
        "more": len(found) > MOST_READ,
        "has_clusters": bool(clusters),
        "health": None if position is not None else _CLUSTERS.view(health, query),
        "offers": offers,
        "reasons": reasons(offers),
        "past": past,
    }
    return templates.page("placements.html", {**frame(request, caller), **context})


def _health(connection: Connection, clusters: Sequence[ClusterRow]) -> list[ReplicationView]:
    """Return the clusters' current replication; earlier positions have none."""
    seen = list_replication(connection, [row.kafka_cluster_id for row in clusters])
    return [ReplicationView(row=row, found=found) for row, found in zip(clusters, seen, strict=True)]
