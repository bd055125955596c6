"""Leases on a real PostgreSQL: one holder, rising epochs, the database's clock."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from backend.queries.base.observed import leases as table
from workers.distribution import task_states
from workers.distribution.task_states import TaskState
from workers.leases import leases

LONG, OVER = 60.0, -1.0  # seconds: a lease that holds, one that has expired already


@pytest.fixture
def run(database):
    """Return a function that calls a function of workers.leases.leases in a transaction of its own."""

    def call(function, *arguments):
        with database.engine.begin() as connection:
            return function(connection, *arguments)

    return call


def test_a_held_task_is_nobody_elses(run):
    assert run(leases.acquire, "one", ["u"], LONG) == {"u": 1}
    assert run(leases.acquire, "two", ["u"], LONG) == {}
    assert run(leases.taken) == {"u"}


def test_the_epoch_rises_with_each_holder_and_not_with_renewals(run):
    run(leases.acquire, "one", ["u"], OVER)
    assert run(leases.acquire, "two", ["u"], LONG) == {"u": 2}
    assert run(leases.renew, "two", {"u": 2}, LONG) == {"u"}
    run(leases.release, "two", [("u", 2)])
    assert run(leases.taken) == frozenset()
    assert run(leases.acquire, "one", ["u"], LONG) == {"u": 3}


def test_an_expired_lease_can_be_renewed_only_while_nobody_took_it(run):
    run(leases.acquire, "one", ["u"], OVER)
    assert run(leases.renew, "one", {"u": 1}, OVER) == {"u"}
    run(leases.acquire, "two", ["u"], LONG)
    assert run(leases.renew, "one", {"u": 1}, LONG) == frozenset()
    assert run(leases.holds, "two", "u", 2)


def test_an_older_epoch_of_the_same_holder_holds_nothing(run):
    run(leases.acquire, "one", ["u"], OVER)
    run(leases.acquire, "one", ["u"], LONG)
    assert run(leases.renew, "one", {"u": 1}, LONG) == frozenset()
    assert not run(leases.holds, "one", "u", 1)
    run(leases.release, "one", [("u", 1)])
    assert run(leases.holds, "one", "u", 2)


def test_an_expired_lease_is_not_held(run):
    run(leases.acquire, "one", ["u"], OVER)
    assert not run(leases.holds, "one", "u", 1)
    assert run(leases.taken) == frozenset()


def test_of_many_who_reach_for_the_same_tasks_each_task_goes_to_one(database):
    units = [f"u{n}" for n in range(20)]
    got, barrier = {}, threading.Barrier(8)

    def reach(holder):
        barrier.wait()
        with database.engine.begin() as connection:
            got[holder] = leases.acquire(connection, holder, units if holder % 2 else units[::-1], LONG)

    threads = [threading.Thread(target=reach, args=(holder,)) for holder in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(unit for taken in got.values() for unit in taken) == sorted(units)
    with database.engine.connect() as connection:
        assert set(connection.execute(sa.select(table.c.epoch)).scalars()) == {1}


def test_sessions_that_are_not_seen_any_more_do_not_count(run):
    assert run(leases.report_session, "one", LONG) == 1
    assert run(leases.report_session, "two", LONG) == 2
    run(leases.end_session, "one")
    assert run(leases.report_session, "two", LONG) == 1
    assert run(leases.report_session, "three", OVER) == 1, "each for as long as it said"


def test_only_one_runs_the_reconcile_loop(run):
    assert run(leases.renew_or_acquire, "one", "reconcile", LONG)
    assert not run(leases.renew_or_acquire, "two", "reconcile", LONG)
    assert run(leases.renew_or_acquire, "one", "reconcile", OVER)
    assert run(leases.renew_or_acquire, "two", "reconcile", LONG)


def state(epoch, holder, lag):
    return TaskState(
        unit="u",
        holder=holder,
        epoch=epoch,
        state="running",
        reason=None,
        target="c",
        lag_records=lag,
        records_per_second=0.0,
        copied_records=0,
        copied_bytes=0,
        unreadable_flags=0,
        position=1,
    )


def test_a_former_holders_late_report_does_not_hide_its_successors(run, database):
    run(task_states.write, [state(2, "two", 5)])
    run(task_states.write, [state(1, "one", 9)])
    with database.engine.connect() as connection:
        (row,) = connection.execute(sa.text("SELECT holder, lag_records FROM unit_states")).all()
    assert tuple(row) == ("two", 5)
    run(task_states.forget, ["other"])
    with database.engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM unit_states")).scalar_one() == 0
