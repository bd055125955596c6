"""Reports of zone router nodes for tests of the control plane."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from backend.queries.base.observed import zone_router_nodes
from tests.support.database.postgres import Database


def report(zone: str, broker: int, epoch: int | None = None, **more: Any) -> dict[str, Any]:
    """Return the report of a node that is its zone's proxy for all of three brokers, and the main of one."""
    return {
        "node": f"zr-{zone}",
        "zone": zone,
        "serves": ["proxy", "main"],
        "cluster": "c1",
        "broker": broker,
        "reported_epoch": epoch,
        "open_streams": 0,
        "stands_for": {"c1": [1, 2, 3]},
        "traffic": [{"plane": "fetch", "from_zone": zone, "to_zone": zone, "bytes": 1000}],
        "cold_reads": {"reads": 3, "bytes": 4711},
        "cache": {"bytes": 1, "most_bytes": 2},
        **more,
    }


def pass_time(database: Database, seconds: float, *nodes: str, since: float = 0.0) -> None:
    """Move the reports of these nodes (default: all) back by so many seconds, and their starts by `since` more."""
    kept, earlier = zone_router_nodes.c, sa.text(f"interval '{seconds} seconds'")
    changed = {
        "seen_at": kept.seen_at - earlier,
        "unbroken_since": kept.unbroken_since - earlier - sa.text(f"interval '{since} seconds'"),
    }
    statement = sa.update(zone_router_nodes).values(changed)
    with database.engine.begin() as connection:
        connection.execute(statement.where(kept.node.in_(nodes)) if nodes else statement)
