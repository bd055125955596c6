"""Which leases somebody has: what runs once, and runs."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.queries.observed import leases

ALWAYS = ("reconcile", "offsets", "schemas")
"""Those that somebody is to have at any time, if there is anything to do at all."""


def read(connection: Connection) -> dict[str, bool]:
    """Every lease that somebody has, and of `ALWAYS` those, too, that nobody has; by name."""
    query = sa.select(leases.c.unit).where(
        leases.c.holder.is_not(None), leases.c.expires_at > sa.func.clock_timestamp()
    )
    held = set(connection.execute(query).scalars())
    return {name: name in held for name in sorted(held | set(ALWAYS))}
