"""Leases of work that only one process runs: a process that lost its lease stops, even if the lease is free."""

from __future__ import annotations

import threading
from datetime import datetime

import pytest
import sqlalchemy as sa

from backend.queries.base.observed import leases as leases_table
from backend.settings import Settings
from tests.eventually import eventually
from tests.support.database.postgres import Database
from workers.leases import leases
from workers.leases.process_lease import ProcessLease
from workers.run_host import RunHost

LONG, OVER = 60.0, -1.0  # seconds: a lease that holds, one that has expired already


def overtake(database: Database, unit: str) -> None:
    """Let another process take the lease, once it has expired, and release it."""
    with database.engine.begin() as connection:
        (epoch,) = leases.acquire(connection, "other", [unit], LONG).values()
        leases.release(connection, "other", [(unit, epoch)])


@pytest.fixture
def lease(database: Database) -> ProcessLease:
    return ProcessLease(database.engine, "reconcile", OVER)


def test_a_lease_that_expired_and_that_nobody_took_goes_on(lease):
    assert lease.take() and lease.renew() and lease.keep()


def test_a_process_that_was_overtaken_is_told_so_once_before_it_begins_anew(lease, database):
    assert lease.keep()
    overtake(database, "reconcile")
    assert not lease.keep(), "what it knows is stale, although nobody has the lease"
    assert lease.keep()


def expires_at(database: Database, unit: str) -> datetime:
    with database.engine.connect() as connection:
        query = sa.select(leases_table.c.expires_at).where(leases_table.c.unit == unit)
        found: datetime = connection.execute(query).scalar_one()
        return found


def test_a_lease_is_renewed_while_its_holder_is_busy(database: Database) -> None:
    lease = ProcessLease(database.engine, "offsets", 0.3)
    with lease.renewing():
        assert lease.keep()
        first = expires_at(database, "offsets")
        eventually(lambda: expires_at(database, "offsets") > first, "the thread renews it")


def test_a_process_that_was_overtaken_while_it_was_busy_is_told_so_once(database: Database) -> None:
    lease = ProcessLease(database.engine, "offsets", 0.3)
    assert lease.keep()
    with database.engine.begin() as connection:
        connection.execute(sa.update(leases_table).values(expires_at=sa.func.now() - sa.text("interval '1 s'")))
    overtake(database, "offsets")
    with lease.renewing():
        eventually(lambda: lease._epoch is None, "the thread has found out")
    assert not lease.keep(), "what it knows is stale, although nobody has the lease"
    assert lease.keep()


def test_a_run_that_was_overtaken_is_told_so_for_good(database):
    began, answers, go_on = threading.Event(), [], threading.Event()

    def run(each, is_mine):
        began.set()
        assert go_on.wait(60)
        answers.extend([is_mine(each), is_mine(each)])

    settings = Settings(lease_ttl_seconds=0.001)
    host = RunHost(database.engine, settings, "switch", lambda _: ["s1"], run)
    host.tick()
    assert began.wait(60)
    overtake(database, "switch:s1")
    go_on.set()
    eventually(lambda: host.is_idle, "the run has ended")
    assert answers == [False, False]
