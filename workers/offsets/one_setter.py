"""Who sets groups' offsets on a cluster from outside: one at a time.

A broker refuses such an offset to a group with members. To one without, as every group is while a switch moves it,
the last who sets one is right: so a committer that has found out where the group goes on looks once more at what
stands, and sets it, while no switch does, and a switch sets its offsets while no committer does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Engine

# As long as statements may take; longer than a cluster is given to answer whoever is before.
_LOCK_SECONDS = 25


@contextmanager
def alone(engine: Engine, cluster: str) -> Iterator[None]:
    """Nobody else sets groups' offsets on this cluster meanwhile."""
    with engine.begin() as connection:
        connection.execute(sa.text(f"SET LOCAL lock_timeout = {_LOCK_SECONDS * 1000}"))
        name = sa.func.hashtextextended(f"treeline.offsets {cluster}", 0)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(name)))
        yield
