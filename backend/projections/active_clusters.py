"""Projection of each environment's active cluster, where discovery sends clients, and of its generation.

At first that is the primary of the tree; a later move of the primary moves no clients. A cluster that leaves the
tree while it is active hands its clients to the primary, under the next generation (docs/decisions/0034).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.switch.cluster_switch import (
    FIRST_GENERATION,
    MARKED,
    ClientsMoved,
    Moving,
    SwitchAborted,
    SwitchFailed,
)
from backend.domain.tenants.tenant import EnvironmentCreated
from backend.domain.tree.primary_move import PrimaryMoved
from backend.domain.tree.tree import TreeReplaced, clusters_of
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, open_rows, replace, temporal_table

MAIN = "main"
ALL_ZONES = ""
"""Zone of the row that applies to all zones without a row of their own."""

active_clusters = temporal_table(
    "active_clusters",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("environment", sa.Text, primary_key=True),
    sa.Column("zone", sa.Text, primary_key=True),
    # NULL until there is a tree.
    sa.Column("cluster", sa.Text),
    sa.Column("generation", sa.BigInteger, nullable=False),
    # The switch that moved the clients there, if one did.
    sa.Column("switch", sa.Text),
    sa.Column("mode", sa.Text),
    # The left generation, and the position at which its drain was marked: clients that have been on hold in that
    # generation since before then find all their records. NULL if nothing was drained.
    sa.Column("left_generation", sa.BigInteger),
    sa.Column("marked_at", sa.BigInteger),
)
# A copy of what determines the first active cluster: a projection reads its own tables only.
active_basis = temporal_table(
    "active_basis",
    METADATA,
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("primary_cluster", sa.Text, nullable=False),
    sa.Column("leaves", JSONB, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    position = recorded.position
    match recorded.event:
        case EnvironmentCreated() as event:
            basis = current(rows, active_basis, {"tree": MAIN})
            key = _key(event.tenant, event.instance, event.environment)
            _set(rows, key, None if basis is None else basis["primary_cluster"], FIRST_GENERATION, position)
        case TreeReplaced() as event:
            leaves = sorted(clusters_of(event.root))
            basis = {"primary_cluster": event.primary_cluster, "leaves": leaves}
            replace(rows, active_basis, {"tree": MAIN}, basis, position)
            _leave(rows, leaves, event.primary_cluster, position)
        case PrimaryMoved() as event:
            change(rows, active_basis, {"tree": MAIN}, {"primary_cluster": event.cluster}, position)
        case ClientsMoved() as event:
            for moving in event.moves:
                key = _key(*moving.place, moving.zone or ALL_ZONES)
                values = {"cluster": event.target, "generation": event.generation}
                values |= {"switch": event.switch, "mode": event.mode, "marked_at": event.measured.get(MARKED)}
                values |= {"left_generation": _left(rows, moving)}
                replace(rows, active_clusters, key, values, position)
        case SwitchAborted() | SwitchFailed() as event if event.generation is not None:
            # Offsets that groups commit from now on supersede those that were set for them on the target.
            for moving in event.moves:
                key = _key(*moving.place, moving.zone or ALL_ZONES)
                _set(rows, key, event.source, event.generation, position)


def _leave(rows: Rows, leaves: list[str], primary: str, position: int) -> None:
    """Move clients of clusters that are no longer leaves to the primary; place those that had no cluster yet."""
    for row in open_rows(rows, active_clusters, {}):
        if row["cluster"] not in leaves:
            key = {name: row[name] for name in ("tenant", "instance", "environment", "zone")}
            generation = _above(rows, key) if row["cluster"] is not None else row["generation"]
            _set(rows, key, primary, generation, position)


def _left(rows: Rows, moving: Moving) -> int | None:
    """Return the generation that clients have until they are moved."""
    for zone in (moving.zone or ALL_ZONES, ALL_ZONES):
        row = current(rows, active_clusters, _key(*moving.place, zone))
        if row is not None:
            generation: int = row["generation"]
            return generation
    return None


def _above(rows: Rows, key: dict[str, str]) -> int:
    """Return a generation above all those that the environment has in any zone."""
    place = {name: key[name] for name in ("tenant", "instance", "environment")}
    highest: int = max(row["generation"] for row in open_rows(rows, active_clusters, place))
    return highest + 1


def _key(tenant: str, instance: str, environment: str, zone: str = ALL_ZONES) -> dict[str, str]:
    return {"tenant": tenant, "instance": instance, "environment": environment, "zone": zone}


def _set(rows: Rows, key: dict[str, str], cluster: str | None, generation: int, position: int) -> None:
    values: dict[str, Any] = {"cluster": cluster, "generation": generation}
    values |= dict.fromkeys(("switch", "mode", "left_generation", "marked_at"))
    replace(rows, active_clusters, key, values, position)


PROJECTION = Projection(
    name="active_clusters",
    events=frozenset({EnvironmentCreated, TreeReplaced, PrimaryMoved, ClientsMoved, SwitchAborted, SwitchFailed}),
    tables=(active_clusters, active_basis),
    apply=_apply,
)
