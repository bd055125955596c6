"""Client addresses of events: stored beside the log, since they are personal data and must be deletable.

The layer that takes a request sets its provenance (`coming_from`); events appended meanwhile are recorded with it,
in their transaction. Events of workers have none: their actor says everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.access.access import Provenance
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA

event_provenance = sa.Table(
    "event_provenance",
    METADATA,
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("means", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    # Old rows are found by it.
    sa.Index("event_provenance_time", "time"),
)

# One value per request, whichever thread works on it: pool threads run in their caller's context.
_PROVENANCE: ContextVar[Provenance | None] = ContextVar("provenance", default=None)


@contextmanager
def coming_from(provenance: Provenance) -> Iterator[None]:
    """Attribute events appended in this block to this provenance."""
    before = _PROVENANCE.set(provenance)
    try:
        yield
    finally:
        _PROVENANCE.reset(before)


def current() -> Provenance | None:
    """Return the provenance of the current request; None outside of a request."""
    return _PROVENANCE.get()


def note(connection: Connection, recorded: Sequence[RecordedEvent]) -> None:
    """Record the provenance of these events, if there is one."""
    provenance = _PROVENANCE.get()
    if provenance is None or not recorded:
        return
    said = {"means": provenance.means, "address": provenance.address, "agent": provenance.agent}
    rows = [{"position": each.position, "time": each.time, **said} for each in recorded]
    connection.execute(sa.insert(event_provenance), rows)
