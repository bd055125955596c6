"""Projection of the zone router's epochs: one row."""

from __future__ import annotations

import sqlalchemy as sa

from backend.domain.zones.route_epochs import RouteEpochBegun, RouteEpochCommitted
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, replace, temporal_table

route_epochs = temporal_table(
    "route_epochs",
    METADATA,
    # Name of the event stream: there is only one.
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("current", sa.BigInteger, nullable=False),
    sa.Column("fenced", sa.BigInteger, nullable=False),
    sa.Column("committed", sa.BigInteger, nullable=False),
    sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
    # Time at which `committed` was last raised; NULL if it never was.
    sa.Column("committed_at", sa.DateTime(timezone=True)),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    key = {"stream": recorded.stream}
    match recorded.event:
        case RouteEpochBegun() as event:
            before = current(rows, route_epochs, key) or {"committed": 0, "committed_at": None}
            values = {
                "current": event.epoch,
                "fenced": event.fenced,
                "committed": before["committed"],
                "begun_at": recorded.time,
                "committed_at": before["committed_at"],
                "version": recorded.version,
            }
            replace(rows, route_epochs, key, values, recorded.position)
        case RouteEpochCommitted() as event:
            raised = {"committed": event.epoch, "committed_at": recorded.time, "version": recorded.version}
            change(rows, route_epochs, key, raised, recorded.position)


PROJECTION = Projection(
    name="route-epochs",
    events=frozenset({RouteEpochBegun, RouteEpochCommitted}),
    tables=(route_epochs,),
    apply=_apply,
)
