"""Logins, logouts, refused logins, cluster probes and reads of messages: rows kept for a limited time, no events.

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
    # The tenant whose messages were read; empty for all other rows.
    sa.Column("tenant", sa.Text, nullable=False, server_default=""),
    sa.Index("logins_time", "time", "id"),
    sa.Index("logins_user", "user", "id"),
    sa.Index("logins_kind", "kind", "id"),
    sa.Index("logins_tenant", "tenant", "id", postgresql_where=sa.text("tenant <> ''")),
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
    MESSAGES = "MessagesRead"
    """A request read messages of a stream; the reason says which."""


@dataclass(frozen=True)
class LoginRow:
    """A row of the login table."""

    id: int
    time: datetime
    kind: str
    user: str
    reason: str
    tenant: str
    provenance: Provenance


def record(
    connection: Connection,
    kind: LoginKind,
    user: str,
    means: str,
    provenance: Provenance,
    reason: str = "",
    tenant: str = "",
) -> int:
    """Record what happened just now; return the row's id."""
    values = _values(user, replace(provenance, means=means), reason, tenant)
    row = sa.insert(logins).values(time=sa.func.now(), kind=kind, **values).returning(logins.c.id)
    return int(connection.execute(row).scalar_one())


def record_once(
    connection: Connection,
    kind: LoginKind,
    user: str,
    provenance: Provenance,
    reason: str,
    tenant: str,
    within: timedelta,
) -> int:
    """Record what happened just now, unless a row says the same and is not older; return the row's id."""
    same = _values(user, provenance, reason, tenant)
    query = sa.select(logins.c.id).where(
        logins.c.kind == kind,
        logins.c.time > sa.func.now() - within,
        *(logins.c[column] == value for column, value in same.items()),
    )
    row = connection.execute(query.order_by(logins.c.id.desc()).limit(1)).scalar_one_or_none()
    return record(connection, kind, user, provenance.means, provenance, reason, tenant) if row is None else row


def _values(user: str, provenance: Provenance, reason: str, tenant: str) -> dict[str, str]:
    said = {"means": provenance.means, "address": provenance.address, "agent": provenance.agent}
    return {"user": user, "reason": reason, "tenant": tenant, **said}


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
