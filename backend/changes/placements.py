"""Changes of placements: asking for a plan."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.deciders import PLACEMENT
from backend.domain.placements import Aims, Placement, PlacementCommand, RequestPlacement
from backend.queries.clusters import list_clusters

PlacementChange = Change[Placement | None, PlacementCommand]


def request_placement(placement: str, cluster: str, aims: Aims) -> PlacementChange:
    """Have a plan made by a worker, under this id. Nothing is moved."""

    def build(connection: Connection) -> RequestPlacement:
        known = frozenset(row.name for row in list_clusters(connection))
        return RequestPlacement(placement=placement, cluster=cluster, aims=aims, known_clusters=known)

    return Change(PLACEMENT, event_stream(placement), build)


def event_stream(placement: str) -> str:
    """The event stream of a placement."""
    return f"placement-{placement}"
