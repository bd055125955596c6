"""Read the epochs of the router channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.zones.route_epochs import EVENT_STREAM
from backend.projections.route_epochs import route_epochs
from backend.projections.temporal import as_of


@dataclass(frozen=True, kw_only=True)
class EpochsRow:
    """The epochs and when they changed; all 0, and without times, before the first one begins."""

    current: int = 0
    fenced: int = 0
    committed: int = 0
    begun_at: datetime | None = None
    committed_at: datetime | None = None
    """Time when `committed` was last raised."""
    version: int = 0
    """Version of the event stream."""


def find_epochs(connection: Connection, at: int | None = None) -> EpochsRow:
    """Return the epochs now, or as of a position."""
    query = sa.select(route_epochs).where(route_epochs.c.stream == EVENT_STREAM, as_of(route_epochs, at))
    row = connection.execute(query).one_or_none()
    if row is None:
        return EpochsRow()
    return EpochsRow(
        current=row.current,
        fenced=row.fenced,
        committed=row.committed,
        begun_at=row.begun_at,
        committed_at=row.committed_at,
        version=row.version,
    )
