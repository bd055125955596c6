"""Projection of the switches, and of their phases with their measurements."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.switch.cluster_switch import (
    ENDED,
    ClientsMoved,
    Phase,
    StrandedRecordsArrived,
    SwitchAborted,
    SwitchAdvanced,
    SwitchCompleted,
    SwitchFailed,
    SwitchForced,
    SwitchStarted,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, open_rows, replace, temporal_table

switches = temporal_table(
    "switches",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    # [{tenant, instance, environment, zone}, ...]
    sa.Column("moves", JSONB, nullable=False),
    sa.Column("drain", sa.Text, nullable=False),
    # [{cluster, level, target, previous}, ...]
    sa.Column("retargets", JSONB, nullable=False),
    sa.Column("plan_digest", sa.Text),
    sa.Column("reverses", sa.Text),
    # Clients that the switch does not wait for.
    sa.Column("forced", JSONB, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("report", JSONB(none_as_null=True)),
    # Unreplicated records of an emergency, known once the cluster that was left is back: {records, partitions}.
    sa.Column("arrived", JSONB(none_as_null=True)),
    # Position of the event that started it: switches are listed in this order.
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
switch_phases = temporal_table(
    "switch_phases",
    METADATA,
    sa.Column("switch", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    # ISO 8601, UTC.
    sa.Column("started_at", sa.Text, nullable=False),
    sa.Column("ended_at", sa.Text),
    sa.Column("measured", JSONB, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    match recorded.event:
        case SwitchStarted() as event:
            _start(rows, event, recorded)
        case SwitchAdvanced() as event:
            _enter(rows, event.switch, event.phase, event.measured, recorded)
        case SwitchForced() as event:
            before = current(rows, switches, {"id": event.switch})
            assert before is not None  # its first event made the row
            forced = sorted({*before["forced"], *event.clients})
            _change(rows, event.switch, {"forced": forced}, recorded)
        case ClientsMoved() as event:
            _enter(rows, event.switch, Phase.VERIFYING, event.measured, recorded)
        case SwitchCompleted() as event:
            _enter(rows, event.switch, Phase.COMPLETED, event.measured, recorded, report=event.report)
        case SwitchAborted() as event:
            _enter(rows, event.switch, Phase.ABORTED, {}, recorded, reason=event.reason)
        case SwitchFailed() as event:
            _enter(rows, event.switch, Phase.FAILED, {}, recorded, reason=event.reason)
        case StrandedRecordsArrived() as event:
            partitions = [list(each) for each in event.partitions]
            lost = [list(each) for each in event.lost]
            arrived = {"records": event.records, "partitions": partitions, "lost": lost}
            _change(rows, event.switch, {"arrived": arrived}, recorded)


def _start(rows: Rows, event: SwitchStarted, recorded: RecordedEvent) -> None:
    values = {
        "source": event.source,
        "target": event.target,
        "mode": event.mode,
        "state": str(Phase.PLANNED),
        "generation": event.generation,
        "moves": [asdict(moving) for moving in event.moves],
        "drain": event.drain,
        "retargets": [asdict(each) for each in event.retargets],
        "plan_digest": event.plan_digest,
        "reverses": event.reverses,
        "forced": [],
        "reason": None,
        "report": None,
        "arrived": None,
        "started": recorded.position,
        "version": recorded.version,
    }
    replace(rows, switches, {"id": event.switch}, values, recorded.position)
    _begin(rows, event.switch, 0, Phase.PLANNED, recorded)


def _enter(
    rows: Rows,
    switch: str,
    phase: str,
    measured: dict[str, Any],
    recorded: RecordedEvent,
    **also: Any,
) -> None:
    """End the current phase with its measurements, and begin the next."""
    _change(rows, switch, {"state": str(phase), **also}, recorded)
    phases = open_rows(rows, switch_phases, {"switch": switch})
    last = max(phases, key=lambda row: row["number"])
    key = {"switch": switch, "number": last["number"]}
    ended = {"ended_at": recorded.time.isoformat(), "measured": measured}
    change(rows, switch_phases, key, ended, recorded.position)
    if phase not in ENDED:
        _begin(rows, switch, last["number"] + 1, phase, recorded)


def _begin(rows: Rows, switch: str, number: int, phase: str, recorded: RecordedEvent) -> None:
    values: dict[str, Any] = {
        "name": str(phase),
        "started_at": recorded.time.isoformat(),
        "ended_at": None,
        "measured": {},
    }
    replace(rows, switch_phases, {"switch": switch, "number": number}, values, recorded.position)


def _change(rows: Rows, switch: str, values: dict[str, Any], recorded: RecordedEvent) -> None:
    change(rows, switches, {"id": switch}, {**values, "version": recorded.version}, recorded.position)


PROJECTION = Projection(
    name="switches",
    events=frozenset(
        {
            SwitchStarted,
            SwitchAdvanced,
            SwitchForced,
            ClientsMoved,
            SwitchCompleted,
            SwitchAborted,
            SwitchFailed,
            StrandedRecordsArrived,
        }
    ),
    tables=(switches, switch_phases),
    apply=_apply,
)
