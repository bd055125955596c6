"""Read model of placements; and what plans are made from and come to, which workers write beside the events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.placements import PlacementFailed, PlacementPlanned, PlacementRequested, PlacementState
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, replace, temporal_table

placements = temporal_table(
    "placements",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("aims", JSONB, nullable=False),
    sa.Column("digest", sa.Text),
    sa.Column("summary", JSONB(none_as_null=True)),
    sa.Column("reason", sa.Text),
    # Position of the event that asked for it: placements are listed in this order.
    sa.Column("requested", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    event, position = recorded.event, recorded.position
    match event:
        case PlacementRequested():
            values = {
                "cluster": event.cluster,
                "state": str(PlacementState.REQUESTED),
                "aims": asdict(event.aims),
                "digest": None,
                "summary": None,
                "reason": None,
                "requested": position,
                "version": recorded.version,
            }
            replace(rows, placements, {"id": event.placement}, values, position)
        case PlacementPlanned():
            planned = {"state": str(PlacementState.PLANNED), "digest": event.digest, "summary": event.summary}
            _change(rows, event.placement, planned, recorded)
        case PlacementFailed():
            _change(rows, event.placement, {"state": str(PlacementState.FAILED), "reason": event.reason}, recorded)


def _change(rows: Rows, placement: str, values: dict[str, Any], recorded: RecordedEvent) -> None:
    change(rows, placements, {"id": placement}, {**values, "version": recorded.version}, recorded.position)


PROJECTION = Projection(
    name="placements",
    events=frozenset({PlacementRequested, PlacementPlanned, PlacementFailed}),
    tables=(placements,),
    apply=_apply,
)
