"""`/clusters/{cluster}/replication/what-if?broker=N`: what would be lost if that broker died now.

The page queries the cluster's current leaders and ISRs, and the replication lab plays the death.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from backend.cluster_requests.broker_loss import BrokerLoss, document, what_if_broker_dies
from backend.domain.access.access import Action
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.replication.replication_page import REPLICATION, cluster_trail, existing_cluster

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LARGEST_ID = 2**31 - 1
BAD, WARN, GOOD = "bad", "warn", "good"
TONES = {
    "unclean": BAD,
    "offline": BAD,
    "last_copy": BAD,
    "offline_already": WARN,
    "refusing": WARN,
}
"""Tones of outcomes: bad where committed records are lost, or would be with the broker's disk; a warning where the
partition is unusable while the broker is offline. Other outcomes are harmless.
"""


@router.get(REPLICATION + "/what-if")
def what_if_page(cluster: str, request: Request, services: Shared, viewer: Viewer, broker: str = "") -> Response:
    """Show the page. Text that is no broker id counts as an unknown broker."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        row = existing_cluster(connection, cluster)
    wanted = int(broker) if broker.isascii() and broker.isdigit() and len(broker) <= 10 else LARGEST_ID
    loss = what_if_broker_dies(row, wanted, services.config.probe_timeout_seconds)
    context = {
        **frame(request, caller),
        "cluster": row.name,
        "found": document(loss),
        "tone": tone_of(loss),
        "tones": TONES,
        "trail": [*cluster_trail(row.name), ("Replication", REPLICATION.format(cluster=row.name))],
    }
    return templates.page("replication_what_if.html", context)


def tone_of(loss: BrokerLoss) -> str:
    """Return the tone of the gravest outcome; at least a warning where topics' settings had to be assumed."""
    found = {tone for name, tone in TONES.items() if getattr(loss.found, name)}
    if BAD in found:
        return BAD
    return WARN if found or loss.settings_unseen else GOOD
