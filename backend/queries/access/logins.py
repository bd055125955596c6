"""Logins, logouts, refused logins and cluster probes: rows that are kept for a limited time, no events.

A log that nothing can be removed from is no place for people's addresses; and refused logins are written for
unauthenticated requests, so their number must be limited (`backend/login_limits.py` counts them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.access.access import Provenance
from backend.eventlog.provenance import event_provenance
from backend.eventlog.tables import METADATA

FORGOTTEN_AT_ONCE = 5000

logins = sa.Table(
    "logins",
    METADATA,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    # For a refused login only the name of an existing user: any other text may be a mistyped password.
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("means", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Index("logins_time", "time", "id"),
    sa.Index("logins_user", "user", "id"),
    sa.Index("logins_kind", "kind", "id"),
)


class LoginKind(StrEnum):
    """Kind of a row."""

    IN = "LoggedIn"
    REFUSED = "LoginRefused"
    OUT = "LoggedOut"
    ENDED = "SessionEnded"
    """Ended by its user, from another session."""
    PROBED = "ClusterProbed"
    """A dry run connected to a cluster, or a change failed because no broker answered."""


@dataclass(frozen=True)
class LoginRow:
    """A row of the login table."""

    id: int
    time: datetime
    kind: str
    user: str
    reason: str
    provenance: Provenance


def record(
    connection: Connection, kind: LoginKind, user: str, means: str, provenance: Provenance, reason: str = ""
) -> int:
    """Record what happened just now; return the row's id."""
    said = replace(provenance, means=means)
    values = {"user": user, "reason": reason, "means": said.means, "address": said.address, "agent": said.agent}
    row = sa.insert(logins).values(time=sa.func.now(), kind=kind, **values).returning(logins.c.id)
    return int(connection.execute(row).scalar_one())


def change_reason(connection: Connection, row: int, reason: str) -> None:
    """Replace the reason in an existing row."""
    connection.execute(sa.update(logins).where(logins.c.id == row).values(reason=reason))


def forget(connection: Connection, days: int) -> bool:
    """Delete some of the expired rows, of logins and of events' provenance. Returns True if there may be more."""
    more = False
    for table, key in ((logins, logins.c.id), (event_provenance, event_provenance.c.position)):
        old = sa.select(key).where(table.c.time < sa.func.now() - timedelta(days=days)).limit(FORGOTTEN_AT_ONCE)
        gone = connection.execute(sa.delete(table).where(key.in_(old.scalar_subquery()))).rowcount
        more = more or gone == FORGOTTEN_AT_ONCE
    return more
