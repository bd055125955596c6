"""Projections of records that distributors could not copy: dead-lettered records, and ranges of lost records."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.distribution.edge_losses import (
    LossesAcknowledged,
    RecordSetAside,
    RecordsLost,
    SetAsideReplayed,
    SourceReplaced,
    replacement_id,
    replacement_reason,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, open_rows, replace, temporal_table

set_aside = temporal_table(
    "set_aside",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("level", sa.Integer, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("stream", sa.Text, nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False),
    # [cluster's number, incarnation, offset], or null.
    sa.Column("origin", JSONB),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("replayed", sa.Boolean, nullable=False),
    # Position of the event that first reported it.
    sa.Column("recorded", sa.BigInteger, nullable=False),
)
losses = temporal_table(
    "losses",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("stream", sa.Text, nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("first_offset", sa.BigInteger, nullable=False),
    # Null: unknown.
    sa.Column("last_offset", sa.BigInteger),
    # Number of offsets known to be lost, from the first one on; 0: a loss is only possible.
    sa.Column("at_least", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("acknowledged", sa.Boolean, nullable=False),
    sa.Column("recorded", sa.BigInteger, nullable=False),
)
# Rows are never deleted: those that wait for an operator, and those of a stream, are found by these indexes.
for _table, _closed in ((set_aside, "replayed"), (losses, "acknowledged")):
    sa.Index(
        f"{_table.name}_open",
        _table.c.cluster,
        _table.c.level,
        postgresql_where=sa.text(f"valid_to IS NULL AND NOT {_closed}"),
    )
    sa.Index(f"{_table.name}_stream", _table.c.stream, _table.c.valid_from)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    position = recorded.position
    match recorded.event:
        case RecordSetAside() as event:
            values = {name: value for name, value in vars(event).items() if name != "id"}
            values["origin"] = list(event.origin) if event.origin else None
            replace(
                rows, set_aside, {"id": event.id}, {**values, "replayed": False, "recorded": position}, position
            )
        case SetAsideReplayed() as event:
            change(rows, set_aside, {"id": event.id}, {"replayed": True}, position)
        case RecordsLost() as event:
            key = {"cluster": event.cluster, "level": event.level, "id": event.id}
            values = {name: value for name, value in vars(event).items() if name not in key}
            lost = 0 if event.last_offset is None else event.last_offset - event.first_offset + 1
            replace(
                rows,
                losses,
                key,
                {**values, "at_least": lost, "acknowledged": False, "recorded": position},
                position,
            )
        case SourceReplaced() as event:
            _replaced(rows, event, position)
        case LossesAcknowledged() as event:
            for row in open_rows(rows, losses, {"cluster": event.cluster, "level": event.level}):
                if not row["acknowledged"]:
                    key = {"cluster": row["cluster"], "level": row["level"], "id": row["id"]}
                    change(rows, losses, key, {"acknowledged": True}, position)


def _replaced(rows: Rows, event: SourceReplaced, position: int) -> None:
    for partition, first_offset, at_least in event.partitions:
        key = {"cluster": event.cluster, "level": event.level, "id": replacement_id(event, partition)}
        values = {
            "target": event.target,
            "stream": event.stream,
            "partition": partition,
            "first_offset": first_offset,
            "last_offset": None,
            "at_least": at_least,
            "reason": replacement_reason(first_offset, at_least),
            "acknowledged": False,
            "recorded": position,
        }
        replace(rows, losses, key, values, position)


PROJECTION = Projection(
    name="edge_losses",
    events=frozenset({RecordSetAside, SetAsideReplayed, RecordsLost, SourceReplaced, LossesAcknowledged}),
    tables=(set_aside, losses),
    apply=_apply,
)
