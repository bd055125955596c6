"""`/switches`: all switches, the newest first, and the active clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.domain.access.access import Action
from backend.domain.history.metrics import ALL
from backend.domain.switch.cluster_switch import ENDED
from backend.queries.base.names_of_events import name_switches
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import SwitchRow, list_phases, list_switches, moving_switches
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.history.chart import SMALL
from backend.web.history.measure_charts import RANGES, read_charts, window
from backend.web.switch.active_cluster_view import active_cluster_views
from backend.web.switch.switch_tables import PLACES_TABLE, SWITCHES_TABLE, place_views
from backend.web.switch.switch_view import Live, SwitchView
from backend.web.tables.table_query import TableParameters

router = APIRouter(include_in_schema=False, route_class=PageRoute)

SWITCHES = ("Switches", "/switches")
MOST_READ = 500


@router.get("/switches")
def switches_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show the page, now or at an earlier position of the event log."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        # At a past position, also read older switches: one may have been moving then.
        found = list_switches(connection, position, most=MOST_READ + 1 if position is None else None)
        views = _views(connection, services, found[:MOST_READ], position)
        active = list_active(connection, position)
        charts = []
        if position is None and found:
            charts = read_charts(connection, "switch.hold_ms", [ALL], window(RANGES["7d"]), size=SMALL)
        moving = moving_switches(connection) if position is None else [row for row in found if row.is_moving]
        named = name_switches(connection, {row.switch for row in active if row.switch is not None})
    places = active_cluster_views(active, moving)
    offers = [offer(caller, Action.CHANGE_ESTATE, None, "Plan switch", "/switches/plan")]
    context = {
        "table": SWITCHES_TABLE.view(views, query),
        "more_switches": len(found) > MOST_READ,
        "places": PLACES_TABLE.view(list(place_views(places, named)), query),
        "per_cluster": sorted(Counter(row.cluster for row in active if row.cluster is not None).items()),
        "figures": charts,
        "offers": offers,
        "reasons": reasons(offers),
        "past": past,
    }
    return templates.page("switches.html", {**frame(request, caller), **context})


def _views(
    connection: Connection, services: ConsoleServices, rows: Sequence[SwitchRow], at: int | None
) -> list[SwitchView]:
    phases = list_phases(connection, [row.id for row in rows], at)
    limit_ms = round(1000 * services.config.switch_hold_seconds)
    live = Live(now=datetime.now(UTC)) if at is None else None
    named = name_switches(connection, [row.id for row in rows])
    return [
        SwitchView(row, phases[row.id], live if row.state not in ENDED else None, limit_ms, named.get(row.id))
        for row in rows
    ]
