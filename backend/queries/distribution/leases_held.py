"""Which leases somebody has: what runs once, and runs; and how often holders that were alive lost theirs."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.queries.base.observed import leases

ALWAYS = ("reconcile", "offsets", "schemas")
"""Those that somebody is to have at any time, if there is anything to do at all."""


def read(connection: Connection) -> dict[str, bool]:
    """Every lease that somebody has, and of `ALWAYS` those, too, that nobody has; by name."""
    query = sa.select(leases.c.unit).where(
        leases.c.holder.is_not(None), leases.c.expires_at > sa.func.clock_timestamp()
    )
    held = set(connection.execute(query).scalars())
    return {name: name in held for name in sorted(held | set(ALWAYS))}


def fenced(connection: Connection) -> dict[str, int]:
    """How often a worker that was alive found the lease taken by another one, by name.

    0 for a lease that is held and was never lost so: Prometheus sees no increase where a counter begins with 1.
    """
    held = sa.and_(leases.c.holder.is_not(None), leases.c.expires_at > sa.func.clock_timestamp())
    query = sa.select(leases.c.unit, leases.c.fenced).where(sa.or_(leases.c.fenced > 0, held))
    query = query.order_by(leases.c.unit)
    return {row.unit: row.fenced for row in connection.execute(query)}
