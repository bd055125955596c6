"""Valid leases, of work that runs only once, and counts of leases lost by live holders."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.queries.base.observed import leases

ALWAYS = ("reconcile", "offsets", "schemas")
"""Leases that should always be held, if there is anything to do."""


def read(connection: Connection) -> dict[str, bool]:
    """Return the valid leases by name, and False for those of `ALWAYS` that are free."""
    query = sa.select(leases.c.unit).where(
        leases.c.holder.is_not(None), leases.c.expires_at > sa.func.clock_timestamp()
    )
    held = set(connection.execute(query).scalars())
    return {name: name in held for name in sorted(held | set(ALWAYS))}


def fenced(connection: Connection) -> dict[str, int]:
    """Return how often a live worker found the lease taken by another one, by name.

    Return 0 for a valid lease that was never lost: Prometheus sees no increase of a counter that starts with 1.
    """
    held = sa.and_(leases.c.holder.is_not(None), leases.c.expires_at > sa.func.clock_timestamp())
    query = sa.select(leases.c.unit, leases.c.fenced).where(sa.or_(leases.c.fenced > 0, held))
    query = query.order_by(leases.c.unit)
    return {row.unit: row.fenced for row in connection.execute(query)}
