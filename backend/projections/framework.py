"""Definition of a projection: rows derived from events, and nothing else.

`apply` gets every event of the classes in `events`, in order, exactly once: its checkpoint commits together with
its rows. It reads and writes only its own `tables`, which are temporal ones, and only through the functions of
`temporal.py`; it reads no clock and calls nothing outside. So folding the log again from zero, on a connection or
in memory, gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Table

from backend.domain.base.event import Event
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.temporal import Rows

checkpoints = sa.Table(
    "projection_checkpoints",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
)


@dataclass(frozen=True)
class Projection:
    """A projection's declaration; each module in backend/projections ends with one, listed in catalogue.py."""

    name: str
    events: frozenset[type[Event]]
    tables: tuple[Table, ...]
    apply: Callable[[Rows, RecordedEvent], None] = field(repr=False)

    def wants(self, event: Event) -> bool:
        return type(event) in self.events
