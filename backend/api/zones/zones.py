"""`/zones`: the state of the zone router."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from fastapi import APIRouter

from backend.api.frame.access import needs
from backend.api.frame.requests import Reading
from backend.api.zones.route_epochs import epochs_shown
from backend.domain.access.access import Action
from backend.queries.zones.zone_router import NodeRow
from backend.queries.zones.zones import RoutedBroker, ZoneRouterState, read_zones

router = APIRouter(prefix="/zones", tags=["zones"])


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def get_zones(connection: Reading) -> dict[str, Any]:
    """Return the zone router's epochs, nodes, broker-to-proxy assignment, and bytes by plane and zones.

    All values are as last reported; each node's counts begin with its first report.
    """
    return shown(read_zones(connection))


def shown(seen: ZoneRouterState) -> dict[str, Any]:
    """Return the state as the response shows it."""
    epochs = seen.epochs
    return {
        "epochs": {
            **epochs_shown(epochs),
            "current_age_seconds": _age(epochs.begun_at, seen.now),
            "committed_age_seconds": _age(epochs.committed_at, seen.now),
            "held_back_by": [each.node for each in seen.mains_holding_back],
        },
        "zones": seen.zones,
        "nodes": [_node(each) for each in seen.nodes],
        "brokers": [_broker(each) for each in seen.brokers],
        "traffic": [asdict(each) for each in seen.traffic],
        "cross_zone_payload_bytes": seen.paid_payload_bytes,
        "cold_reads": asdict(seen.cold_reads),
    }


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())


def _node(row: NodeRow) -> dict[str, Any]:
    report = asdict(row.report)
    del report["traffic"]
    return {**report, "fenced": row.is_unreachable, "age_seconds": row.liveness.silent_seconds}


def _broker(seen: RoutedBroker) -> dict[str, Any]:
    return {
        "cluster": seen.cluster,
        "broker": seen.broker,
        "zone": seen.zone,
        "main": None if seen.main is None else seen.main.report.node,
        "proxies": {zone: [each.report.node for each in nodes] for zone, nodes in seen.proxies.items()},
    }
