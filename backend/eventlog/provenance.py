"""Where events came from: beside the log, not in it, since addresses are people's and must not stay for ever.

Whoever takes a request says where it comes from (`coming_from`); what is appended meanwhile is noted with that, in
its transaction. Workers come from nowhere: of their events the actor says all.
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
    # What is too old is looked for by it.
    sa.Index("event_provenance_time", "time"),
)

# Of a request, whichever thread it is worked on in: threads of a pool get their caller's context.
_PROVENANCE: ContextVar[Provenance | None] = ContextVar("provenance", default=None)


@contextmanager
def coming_from(provenance: Provenance) -> Iterator[None]:
    """Events that are appended in this block come from there."""
    before = _PROVENANCE.set(provenance)
    try:
        yield
    finally:
        _PROVENANCE.reset(before)


def current() -> Provenance | None:
    """Return where the request that is worked on comes from; None outside of a request."""
    return _PROVENANCE.get()


def note(connection: Connection, recorded: Sequence[RecordedEvent]) -> None:
    """Keep where these events come from, if they come from anywhere."""
    provenance = _PROVENANCE.get()
    if provenance is None or not recorded:
        return
    said = {"means": provenance.means, "address": provenance.address, "agent": provenance.agent}
    rows = [{"position": each.position, "time": each.time, **said} for each in recorded]
    connection.execute(sa.insert(event_provenance), rows)
