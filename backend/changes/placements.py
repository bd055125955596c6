"""Changes of placements: asking for a plan, carrying it out and back."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.deciders import PLACEMENT
from backend.domain.placement_runs import PlacementRunCommand, RunLimits, StartApplying, StartRollback
from backend.domain.placements import Aims, Placement, PlacementCommand, RequestPlacement
from backend.queries.clusters import list_clusters
from backend.queries.placements import running_placements

BuildRun = Callable[[Connection], PlacementRunCommand]
"""What an operator says to a placement, from what is so at that moment."""
PlacementChange = Change[Placement | None, PlacementCommand]


def request_placement(placement: str, cluster: str, aims: Aims) -> PlacementChange:
    """Have a plan made by a worker, under this id. Nothing is moved."""

    def build(connection: Connection) -> RequestPlacement:
        known = frozenset(row.name for row in list_clusters(connection))
        return RequestPlacement(placement=placement, cluster=cluster, aims=aims, known_clusters=known)

    return Change(PLACEMENT, event_stream(placement), build)


def applying(connection: Connection, digest: str, limits: RunLimits) -> StartApplying:
    """Move replicas as planned, if nobody else moves any there."""
    return StartApplying(digest=digest, limits=limits, busy=_busy(connection))


def going_back(connection: Connection, limits: RunLimits | None) -> StartRollback:
    """Move replicas back, if nobody else moves any there."""
    return StartRollback(limits=limits, busy=_busy(connection))


def _busy(connection: Connection) -> dict[str, str]:
    return {row.cluster: row.id for row in running_placements(connection)}


def event_stream(placement: str) -> str:
    """The event stream of a placement."""
    return f"placement-{placement}"
