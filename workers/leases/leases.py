"""Leases of tasks, judged by the database's clock.

A lease alone guarantees nothing to Kafka: two holders may exist for a moment, and the target's fencing of
transactional ids decides between them. Leases keep that moment rare and spread the tasks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.queries.base.observed import leases, shifts

# The statement's time, not the transaction's: a transaction that waited must not renew with a past time.
_NOW = sa.func.clock_timestamp()


def _after(seconds: float) -> sa.ColumnElement[object]:
    return _NOW + sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def clock(connection: Connection) -> datetime:
    """Return the database's time, by which leases are judged."""
    now: datetime = connection.execute(sa.select(_NOW)).scalar_one()
    return now


def report_session(connection: Connection, holder: str, ttl_seconds: float, grace_seconds: float = 0.0) -> int:
    """Report that a session is alive for so long, delete expired ones, and count those alive.

    `grace_seconds`: time for which expired ones still count, by a holder that is late itself.
    """
    seen = {"seen_at": _NOW, "ttl_seconds": ttl_seconds}
    row = insert(shifts).values(holder=holder, **seen)
    connection.execute(row.on_conflict_do_update(index_elements=["holder"], set_=seen))
    alive_for = sa.func.make_interval(0, 0, 0, 0, 0, 0, shifts.c.ttl_seconds + grace_seconds)
    connection.execute(sa.delete(shifts).where(shifts.c.seen_at < _NOW - alive_for))
    return connection.execute(sa.select(sa.func.count()).select_from(shifts)).scalar_one()


def report_seen(connection: Connection, holder: str, ttl_seconds: float) -> None:
    """Extend the report of `report_session`, unless the session has ended."""
    seen = {"seen_at": _NOW, "ttl_seconds": ttl_seconds}
    connection.execute(sa.update(shifts).where(shifts.c.holder == holder).values(seen))


def end_session(connection: Connection, holder: str) -> None:
    """Record that a holder takes no more tasks."""
    connection.execute(sa.delete(shifts).where(shifts.c.holder == holder))


def renew(connection: Connection, holder: str, held: Mapping[str, int], ttl_seconds: float) -> frozenset[str]:
    """Extend the leases of `held` (task -> epoch); return the tasks that still are the holder's.

    An expired lease that was not taken still is the holder's own: nothing ran elsewhere in the meantime.
    """
    if not held:
        return frozenset()
    mine = sa.tuple_(leases.c.unit, leases.c.epoch).in_(list(held.items()))
    statement = (
        sa.update(leases)
        .where(leases.c.holder == holder, mine)
        .values(expires_at=_after(ttl_seconds))
        .returning(leases.c.unit)
    )
    return frozenset(connection.execute(statement).scalars())


def taken(connection: Connection, grace_seconds: float = 0.0) -> frozenset[str]:
    """Return the tasks whose lease is valid, or expired less than `grace_seconds` ago."""
    holds = leases.c.expires_at > _after(-grace_seconds)
    query = sa.select(leases.c.unit).where(leases.c.holder.is_not(None), holds)
    return frozenset(connection.execute(query).scalars())


def acquire(
    connection: Connection, holder: str, units: Collection[str], ttl_seconds: float, grace_seconds: float = 0.0
) -> dict[str, int]:
    """Take free leases; return task -> new epoch of those obtained. Other holders may be faster.

    `grace_seconds`: time for which an expired lease is left to its holder, which may renew it late.
    """
    got: dict[str, int] = {}
    for unit in sorted(units):  # one order for all, so that two takers cannot deadlock
        row = insert(leases).values(unit=unit, holder=holder, epoch=1, expires_at=_after(ttl_seconds))
        free = sa.or_(leases.c.holder.is_(None), leases.c.expires_at <= _after(-grace_seconds))
        statement = row.on_conflict_do_update(
            index_elements=["unit"],
            set_={"holder": holder, "epoch": leases.c.epoch + 1, "expires_at": _after(ttl_seconds)},
            where=free,
        ).returning(leases.c.epoch)
        epoch = connection.execute(statement).scalar_one_or_none()
        if epoch is not None:
            got[unit] = epoch
    return got


def renew_or_acquire(connection: Connection, holder: str, unit: str, ttl_seconds: float) -> int | None:
    """Return the epoch of the holder's lease of a task; None if another holder has it."""
    mine = (leases.c.unit == unit, leases.c.holder == holder)
    kept = sa.update(leases).where(*mine).values(expires_at=_after(ttl_seconds)).returning(leases.c.epoch)
    epoch: int | None = connection.execute(kept).scalar_one_or_none()
    return epoch or acquire(connection, holder, [unit], ttl_seconds).get(unit)


def this_process() -> str:
    """Return the holder name of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def holds(connection: Connection, holder: str, unit: str, epoch: int) -> bool:
    """Return whether the lease is still the holder's; checked after fencing on the target."""
    query = sa.select(leases.c.expires_at > _NOW).where(
        leases.c.unit == unit, leases.c.holder == holder, leases.c.epoch == epoch
    )
    return bool(connection.execute(query).scalar_one_or_none())


def release(connection: Connection, holder: str, held: Iterable[tuple[str, int]]) -> None:
    """Release leases, so that others need not wait for their expiry."""
    rows = list(held)
    if rows:
        mine = sa.tuple_(leases.c.unit, leases.c.epoch).in_(rows)
        connection.execute(sa.update(leases).where(leases.c.holder == holder, mine).values(holder=None))
