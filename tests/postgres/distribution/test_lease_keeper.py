"""Workers with late renewals keep their leases, and leave those of others alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import sqlalchemy as sa

from backend.dispatch import Dispatcher
from backend.eventlog.faults import LogBusy
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.base.observed import leases as table
from backend.settings import PROJECT_ROOT, Settings
from tests.eventually import eventually
from tests.support.api.rest import Rest
from tests.support.database.postgres import Database
from workers import context
from workers.leases import leases
from workers.leases.lease_keeper import LeaseKeeper

BASE, LATE = 1.0, 1.4  # seconds; a renewal that is late comes after the lease has expired
SETTINGS = Settings(lease_ttl_seconds=BASE, lease_longest_seconds=60 * BASE, lease_renew_seconds=0.05)
UNITS = ("u1", "u2", "u3")


@pytest.fixture(autouse=True)
def recorded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers record in the test's database."""
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)


@pytest.fixture
def keeper(database: Database) -> Iterator[Callable[[str], LeaseKeeper]]:
    """Yield a function that makes a worker's keeper, which renews on request, or by itself once started."""
    made: list[LeaseKeeper] = []

    def make(holder: str) -> LeaseKeeper:
        made.append(LeaseKeeper(database.engine, SETTINGS, holder, time.sleep))
        return made[-1]

    yield make
    for each in made:
        each.rest()
        for unit in UNITS:
            each.drop(unit)
        eventually(lambda each=each: not each.is_running, "it has ended")


def take(database: Database, keeper: LeaseKeeper, holder: str, units: tuple[str, ...] = UNITS) -> dict[str, int]:
    """Take leases as a worker session does: the free ones, with the keeper's grace."""
    with database.engine.begin() as connection:
        free = [unit for unit in units if unit not in leases.taken(connection, keeper.grace_seconds)]
        got = leases.acquire(connection, holder, free, keeper.seconds, keeper.grace_seconds)
    for unit, epoch in got.items():
        keeper.hold(unit, epoch)
    return got


def epochs(database: Database) -> dict[str, int]:
    with database.engine.connect() as connection:
        return dict(connection.execute(sa.select(table.c.unit, table.c.epoch)).tuples().all())


def test_no_task_changes_hands_between_two_workers_of_a_starved_machine(database, keeper):
    one, two = keeper("one"), keeper("two")
    for each in (one, two):
        each.renew()
    assert take(database, one, "one") == dict.fromkeys(UNITS, 1)
    for _ in range(3):
        time.sleep(LATE)
        # The other one comes first, when the lease has expired.
        two.renew()
        assert take(database, two, "two") == {}
        one.renew()
        assert one.is_late and two.is_late
    assert epochs(database) == dict.fromkeys(UNITS, 1)


@pytest.mark.nightly  # late renewals stay in test_no_unit_changes_hands
def test_leases_outlast_the_gaps_between_late_renewals(database, keeper):
    one = keeper("one")
    one.renew()
    take(database, one, "one")
    for _ in range(3):
        time.sleep(LATE)
        one.renew()
    time.sleep(LATE)
    with database.engine.connect() as connection:
        assert leases.taken(connection) == set(UNITS), "judged without any grace"


@pytest.mark.nightly  # test_lease_length
def test_a_machine_that_has_recovered_gives_up_a_dead_workers_tasks_after_the_base_again(database, keeper):
    one, two = keeper("one"), keeper("two")
    for each in (one, two):
        each.renew()
        time.sleep(LATE)
        each.renew()
    assert one.is_late and two.is_late
    for each in (one, two):
        each.start()
    eventually(lambda: not one.is_late and not two.is_late, "both are on time again")
    assert take(database, one, "one") == dict.fromkeys(UNITS, 1)
    one.rest()
    for unit in UNITS:
        one.drop(unit)  # as if it had died: nothing is given back

    def taken_over() -> bool:
        take(database, two, "two")
        return epochs(database) == dict.fromkeys(UNITS, 2)

    eventually(taken_over, "the other worker has them")


def test_renewals_wait_for_nothing_else_that_the_process_does(database, keeper):
    one = keeper("one")
    take(database, one, "one")
    one.start()
    with database.engine.connect() as connection:
        for _ in range(10):
            time.sleep(BASE / 2)
            assert leases.taken(connection) == set(UNITS)
            connection.rollback()


def test_a_session_that_is_late_still_counts(database):
    with database.engine.begin() as connection:
        assert leases.report_session(connection, "late", 60.0) == 1
        connection.execute(sa.text("UPDATE shifts SET seen_at = seen_at - interval '30 seconds'"))
        assert leases.report_session(connection, "other", 6.0) == 2
        connection.execute(
            sa.text("UPDATE shifts SET seen_at = seen_at - interval '31 seconds' WHERE holder = 'late'")
        )
        assert leases.report_session(connection, "other", 6.0, grace_seconds=30.0) == 2
        assert leases.report_session(connection, "other", 6.0) == 1


def test_what_was_given_back_while_it_was_renewed_is_not_lost(database, keeper):
    one = keeper("one")
    take(database, one, "one")
    one.drop("u1")
    with database.engine.begin() as connection:
        leases.release(connection, "one", [("u1", 1)])
    one.renew()
    assert not one.is_lost("u1", 1) and fenced(database) == {}


def fenced(database: Database) -> dict[str, int]:
    with database.engine.connect() as connection:
        query = sa.select(table.c.unit, table.c.fenced).where(table.c.fenced > 0)
        return dict(connection.execute(query).tuples().all())


WORKER = """
import os, sys, time
from backend.settings import settings
from workers import context
from workers.leases import leases
from workers.leases.lease_keeper import LeaseKeeper
engine, holder = context.engine(), leases.this_process()
keeper = LeaseKeeper(engine, settings(), holder, time.sleep)
with engine.begin() as connection:
    for unit, epoch in leases.acquire(connection, holder, ["u1", "u2"], keeper.seconds).items():
        keeper.hold(unit, epoch)
keeper.start()
print(holder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def worker(database: Database) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds two leases."""
    environment = os.environ | {
        "TREELINE_DATABASE_URL": database.url,
        "TREELINE_LEASE_TTL_SECONDS": str(BASE),
        "TREELINE_LEASE_RENEW_SECONDS": "0.05",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER], cwd=PROJECT_ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_stopped_workers_fencing_is_an_event_with_both_epochs_and_is_counted(
    rest: Rest, database: Database, worker: subprocess.Popen[str], keeper
):
    holder = worker.stdout.readline().strip()
    worker.send_signal(signal.SIGSTOP)
    two = keeper("two")
    two.start()
    taken: dict[str, int] = {}

    def taken_over() -> bool:
        # A worker stopped while it renews its leases keeps them locked until PostgreSQL ends its transaction.
        with suppress(LogBusy):
            taken.update(take(database, two, "two", ("u1", "u2")))
        return taken == {"u1": 2, "u2": 2}

    eventually(taken_over, "its leases have expired")
    assert fenced(database) == {}
    worker.send_signal(signal.SIGCONT)

    def events() -> list[dict]:
        found = rest("GET", "/events?stream=fenced-workers").json()["items"]
        return [each for each in found if each["name"] == "WorkerFenced"]

    (event,) = eventually(events, "it has found out")
    assert event["data"] == {"holder": holder, "leases": [["u1", 1, "two", 2], ["u2", 1, "two", 2]]}
    scraped = rest("GET", "./metrics").text
    assert 'treeline_lease_fenced_total{lease="u1"} 1.0' in scraped
    assert 'treeline_lease_fenced_total{lease="u2"} 1.0' in scraped
    time.sleep(2 * BASE)
    assert (len(events()), fenced(database)) == (1, {"u1": 1, "u2": 1}), "told once"
