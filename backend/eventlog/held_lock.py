"""Locks that are held while an external system (Kafka, an HTTP service) is called.

A row lock, or an advisory lock of a transaction, is the wrong tool for that: the transaction is idle meanwhile,
and PostgreSQL ends it after `idle_in_transaction_session_timeout`, which frees the lock while its holder goes on.

- The lock is an advisory lock of the **session**, on a connection of its own that is in no transaction.
- It lives for `HELD_SECONDS` after the holder's last statement (`idle_session_timeout`): a holder that is stopped
  or cut off blocks others for no longer, and one that is killed frees it at once.
- Each holder gets a higher **fencing epoch** (`held_locks`). `HeldLock.check` is called right before each write
  to the external system; it raises `LockLost` if the session has ended or another holder has a higher epoch.

A write must take less than `HELD_SECONDS`. The moment between a check and the request that follows it cannot be
closed: Kafka's admin requests carry no epoch that a broker would compare.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.dialects.postgresql import insert

from backend.domain.base.errors import Kind
from backend.eventlog.faults import DatabaseUnavailable, LogBusy
from backend.eventlog.tables import held_locks

HELD_SECONDS = 40.0
"""Longer than any call to an external system between two checks: Kafka's take 22 s at most."""
_GIVE_BACK = (
    "SELECT pg_advisory_unlock_all(); RESET lock_timeout; RESET statement_timeout; RESET idle_session_timeout"
)


class LockBusy(DatabaseUnavailable):
    """Another process has held this lock for too long."""

    slug = "lock-busy"
    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class LockLost(DatabaseUnavailable):
    """The lock for this write was lost; nothing was written."""

    slug = "lock-lost"
    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class HeldLock:
    """A lock acquired by `hold`. Used by one thread."""

    def __init__(self, connection: Connection, name: str, epoch: int) -> None:
        self.connection = connection
        """The lock's own connection, in autocommit mode: everything read on it is read under the lock."""
        self.name, self.epoch = name, epoch
        self._is_lost = False

    def check(self) -> None:
        """Make sure that the lock is still held, and extend it by `HELD_SECONDS` from now. Raises LockLost."""
        newest = None
        if not self._is_lost:
            try:
                query = sa.select(held_locks.c.epoch).where(held_locks.c.name == self.name)
                newest = self.connection.execute(query).scalar_one_or_none()
            except DatabaseUnavailable:
                # The session has ended, and the lock with it. The connection is not used again: SQLAlchemy would
                # open another session, which does not have the lock.
                self._is_lost = True
        if newest != self.epoch:
            self._is_lost = True
            raise LockLost(f"The lock {self.name!r} (epoch {self.epoch}) was lost; nothing was written under it.")


@contextmanager
def hold(
    engine: Engine, name: str, *, wait_seconds: float, held_seconds: float = HELD_SECONDS
) -> Iterator[HeldLock]:
    """Hold the lock of this name exclusively among all processes on this database.

    Raises LockBusy if another process still holds it after `wait_seconds`, DatabaseUnavailable.
    """
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        try:
            yield HeldLock(connection, name, _acquire(connection, name, wait_seconds, held_seconds))
        finally:
            _give_back(connection)


def _acquire(connection: Connection, name: str, wait_seconds: float, held_seconds: float) -> int:
    wait_ms = int(wait_seconds * 1000)
    limits = {
        "lock_timeout": wait_ms,
        "statement_timeout": wait_ms + 5000,
        "idle_session_timeout": int(held_seconds * 1000),
    }
    connection.execute(sa.select(*(sa.func.set_config(key, str(value), False) for key, value in limits.items())))
    try:
        number = sa.func.hashtextextended(f"treeline.{name}", 0)
        connection.execute(sa.select(sa.func.pg_advisory_lock(number)))
    except LogBusy as error:
        raise LockBusy(
            f"{_holder_of(connection, name)} has held the lock {name!r} for more than {wait_seconds:g} s; nothing "
            "was changed. Try again."
        ) from error
    row = insert(held_locks).values(name=name, epoch=1, holder=f"{socket.gethostname()}:{os.getpid()}")
    taken = row.on_conflict_do_update(
        index_elements=["name"],
        set_={
            "epoch": held_locks.c.epoch + 1,
            "holder": row.excluded.holder,
            "taken_at": sa.func.clock_timestamp(),
        },
    )
    epoch: int = connection.execute(taken.returning(held_locks.c.epoch)).scalar_one()
    return epoch


def _give_back(connection: Connection) -> None:
    if connection.invalidated:
        return  # the session has ended, and the lock with it
    try:
        connection.exec_driver_sql(_GIVE_BACK)
    except DatabaseUnavailable:
        # Whatever is left of the session ends with its connection, which frees the lock.
        connection.invalidate()


def _holder_of(connection: Connection, name: str) -> str:
    query = sa.select(held_locks.c.holder).where(held_locks.c.name == name)
    return connection.execute(query).scalar_one_or_none() or "Another process"
