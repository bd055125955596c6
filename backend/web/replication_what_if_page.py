"""`/clusters/{cluster}/replication/what-if?broker=N`: what would be lost if that broker died now.

The cluster is asked for this moment's leaders and replicas in sync, and the replication lab plays the death.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from backend.domain.access import Action
from backend.tracing.broker_loss import in_words, outcomes, what_if_broker_dies
from backend.web import templates
from backend.web.pages import PageRoute, enter
from backend.web.placements_page import PLACEMENTS
from backend.web.replication_page import REPLICATION, existing_cluster
from backend.web.services import Shared, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LARGEST_ID = 2**31 - 1


@router.get(REPLICATION + "/what-if")
def what_if_page(cluster: str, request: Request, services: Shared, viewer: Viewer, broker: str = "") -> Response:
    """The page. What is no broker's id is no broker of the cluster."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        row = existing_cluster(connection, cluster)
    wanted = int(broker) if broker.isascii() and broker.isdigit() and len(broker) <= 10 else LARGEST_ID
    found = what_if_broker_dies(row, wanted, services.config.probe_timeout_seconds)
    tone = "bad" if found.offline else "warn" if found.refusing else "good"
    context = {
        **frame(request, caller),
        "cluster": row.name,
        "found": found,
        "sentence": in_words(found),
        "outcomes": outcomes(found),
        "tone": tone,
        "trail": [PLACEMENTS, (f"Replication of {row.name}", REPLICATION.format(cluster=row.name))],
    }
    return templates.page("replication_what_if.html", context)
