"""Projection of placements; workers store the plans' inputs and results beside the events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_proposals import PlacementHeldBack, PlacementProposed
from backend.domain.placement.placement_runs import (
    PlacementCancelled,
    PlacementLimitsChanged,
    PlacementPaused,
    PlacementResumed,
    PlacementRunEnded,
    PlacementRunRefused,
    PlacementRunStarted,
    PlacementState,
)
from backend.domain.placement.placements import (
    PlacementFailed,
    PlacementGiven,
    PlacementPlanned,
    PlacementRequested,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, replace, temporal_table

placements = temporal_table(
    "placements",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("aims", JSONB, nullable=False),
    # Partitions of the reassignment that was submitted; none if a plan is computed.
    sa.Column("given", sa.BigInteger),
    sa.Column("digest", sa.Text),
    sa.Column("summary", JSONB(none_as_null=True)),
    sa.Column("reason", sa.Text),
    # The last run of moves: number of runs so far, limits, and outcome.
    sa.Column("run", sa.BigInteger, nullable=False),
    sa.Column("limits", JSONB(none_as_null=True)),
    sa.Column("report", JSONB(none_as_null=True)),
    # For a placement requested by a worker: the reason, and why it is not applied automatically.
    sa.Column("proposal", JSONB(none_as_null=True)),
    # Position of the event that requested it: placements are listed in this order.
    sa.Column("requested", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    event, position = recorded.event, recorded.position
    match event:
        case PlacementRequested() | PlacementGiven():
            given = event.partitions if isinstance(event, PlacementGiven) else None
            values = {
                "cluster": event.cluster,
                "state": str(PlacementState.REQUESTED),
                "aims": asdict(event.aims if isinstance(event, PlacementRequested) else Aims()),
                "given": given,
                "digest": None,
                "summary": None,
                "reason": None,
                "run": 0,
                "limits": None,
                "report": None,
                "proposal": None,
                "requested": position,
                "version": recorded.version,
            }
            replace(rows, placements, {"id": event.placement}, values, position)
        case PlacementProposed():
            brokers = {"joined": list(event.joined), "left": list(event.left)}
            proposal = {"policy": event.policy, **brokers, "held_back": None}
            _change(rows, event.placement, {"proposal": proposal}, recorded)
        case PlacementHeldBack():
            present = current(rows, placements, {"id": event.placement}) or {}
            proposal = {**(present.get("proposal") or {}), "held_back": event.reason}
            _change(rows, event.placement, {"proposal": proposal}, recorded)
        case PlacementPlanned():
            planned = {"state": str(PlacementState.PLANNED), "digest": event.digest, "summary": event.summary}
            _change(rows, event.placement, planned, recorded)
        case PlacementFailed():
            _change(rows, event.placement, {"state": str(PlacementState.FAILED), "reason": event.reason}, recorded)
        case _:
            _apply_run(rows, recorded)


def _apply_run(rows: Rows, recorded: RecordedEvent) -> None:
    event = recorded.event
    values: dict[str, Any]
    match event:
        case PlacementRunStarted():
            state = PlacementState.ROLLING_BACK if event.back else PlacementState.APPLYING
            began = {"run": event.run, "limits": asdict(event.limits), "report": None, "reason": None}
            values = {"state": str(state), **began}
        case PlacementLimitsChanged():
            values = {"limits": asdict(event.limits)}
        case PlacementPaused():
            values = {"state": str(PlacementState.PAUSED)}
        case PlacementResumed():
            values = {"state": str(PlacementState.APPLYING)}
        case PlacementCancelled():
            values = {"state": str(PlacementState.CANCELLING)}
        case PlacementRunEnded():
            values = {"state": event.state, "report": event.report}
        case PlacementRunRefused():
            values = {"state": event.state, "reason": event.reason}
        case _:
            return
    _change(rows, event.placement, values, recorded)


def _change(rows: Rows, placement: str, values: dict[str, Any], recorded: RecordedEvent) -> None:
    change(rows, placements, {"id": placement}, {**values, "version": recorded.version}, recorded.position)


PROJECTION = Projection(
    name="placements",
    events=frozenset(
        {
            PlacementRequested,
            PlacementGiven,
            PlacementPlanned,
            PlacementFailed,
            PlacementProposed,
            PlacementHeldBack,
            PlacementRunStarted,
            PlacementLimitsChanged,
            PlacementPaused,
            PlacementResumed,
            PlacementCancelled,
            PlacementRunEnded,
            PlacementRunRefused,
        }
    ),
    tables=(placements,),
    apply=_apply,
)
