"""How far the runner of a switch is within a phase: an observation, replaced as it changes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import JSONB, insert

from backend.eventlog.tables import METADATA

switch_progress = sa.Table(
    "switch_progress",
    METADATA,
    sa.Column("switch", sa.Text, primary_key=True),
    sa.Column("told", JSONB, nullable=False),
    sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
)


def write(connection: Connection, switch: str, told: dict[str, Any]) -> None:
    """Replace what was told before."""
    values = {"told": told, "seen_at": sa.func.clock_timestamp()}
    row = insert(switch_progress).values(switch=switch, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["switch"], set_=values))


def read(connection: Connection, switch: str) -> dict[str, Any] | None:
    """What was told last."""
    query = sa.select(switch_progress.c.told).where(switch_progress.c.switch == switch)
    found: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return found
