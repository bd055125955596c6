"""One command, one transaction: decided on the current state, projected before it is answered."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from backend import dispatch
from backend.dispatch import Decider, Dispatcher, Outcome
from backend.domain.base.errors import AlreadyExists, StaleVersion, ValueInvalid
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.store import PostgresEventLog
from backend.queries.base import events as queries
from tests.support.database import sample_projection
from tests.support.database.sample_events import METADATA, TIME, Noted, Pay, decide, evolve, paid, registry
from tests.support.database.sample_projection import BALANCES

PURSE = Decider(0, decide, evolve)


@pytest.fixture
def dispatcher(database):
    sample_projection.create_tables(database.owner)
    return Dispatcher(database.engine, registry(), [BALANCES])


def pay(dispatcher, amount, stream="purse", **kwargs) -> Outcome:
    arguments = {"metadata": METADATA, "time": TIME, "answer": lambda _, outcome: outcome, **kwargs}
    return dispatcher.execute(PURSE, stream, Pay(amount), **arguments)


def stored(database) -> list:
    with database.engine.connect() as connection:
        return queries.list_events(connection)


def balances(database, at=None) -> dict[str, int]:
    with database.engine.connect() as connection:
        return sample_projection.read(connection, at)


def test_a_command_appends_what_was_decided_with_its_metadata_and_time(dispatcher, database):
    outcome = pay(dispatcher, 5)
    assert (outcome.stream, outcome.version) == ("purse", 1)
    [event] = stored(database)
    assert (event.name, event.metadata, event.time) == ("Paid", METADATA, TIME)
    assert event.hash == outcome.events[0].hash


def test_the_answer_sees_projections_with_the_new_events(dispatcher):
    pay(dispatcher, 5)
    answer = pay(dispatcher, 2, answer=lambda connection, _: sample_projection.read(connection))
    assert answer == {"purse": 7}


def test_a_command_without_events_appends_nothing_and_is_answered(dispatcher, database):
    pay(dispatcher, 5)
    outcome = pay(dispatcher, 0)
    assert (outcome.version, outcome.events) == (1, [])
    assert len(stored(database)) == 1


def test_a_dry_run_answers_like_the_command_and_changes_nothing(dispatcher, database):
    pay(dispatcher, 5)
    answer = pay(dispatcher, 2, dry_run=True, answer=lambda c, o: (sample_projection.read(c), o.version))
    assert answer == ({"purse": 7}, 2)
    assert len(stored(database)) == 1
    assert balances(database) == {"purse": 5}
    assert pay(dispatcher, 1).version == 2


@pytest.mark.parametrize("expected", [0, 2])
def test_a_stale_version_is_refused(dispatcher, database, expected):
    pay(dispatcher, 5)
    with pytest.raises(StaleVersion):
        pay(dispatcher, 1, expected_version=expected)
    assert pay(dispatcher, 1, expected_version=1).version == 2


def failing_answer(_: Connection, __: Outcome):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "amount", "change"),
    [(ValueInvalid, -1, {}), (ZeroDivisionError, 1, {"answer": failing_answer})],
)
def test_whatever_fails_leaves_nothing(dispatcher, database, error, amount, change):
    with pytest.raises(error):
        pay(dispatcher, amount, **change)
    assert stored(database) == []
    assert balances(database) == {}


SHORT_TIMEOUT = "SET idle_in_transaction_session_timeout = 1"


class Standstill:
    """A process that stands still in a transaction, as often as told, for longer than the database allows."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, connection: Connection) -> None:
        if self.times > 0:
            self.times -= 1
            self.stand_still(connection, connection.scalar(sa.text("SELECT pg_backend_pid()")))

    def stand_still(self, connection: Connection, me: int | None) -> None:
        connection.execute(sa.text(SHORT_TIMEOUT))
        wait_until_ended(connection.engine, me)


class StandstillBeforeAnAnswer(Standstill):
    """A process that stands still while the server answers, and reads the answer and the server's end together."""

    def stand_still(self, connection: Connection, me: int | None) -> None:
        client = connection.connection.driver_connection.pgconn
        client.send_query(SHORT_TIMEOUT.encode())
        wait_until_ended(connection.engine, me)
        client.consume_input()
        while client.get_result() is not None:
            pass
        client.notifies()  # as the driver asks after each answer


def wait_until_ended(engine: Engine, process: int | None) -> None:
    running = sa.text("SELECT count(*) FROM pg_stat_activity WHERE pid = :process")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
        while other.scalar(running, {"process": process}):
            time.sleep(0.001)


@pytest.mark.parametrize("standing", [Standstill, StandstillBeforeAnAnswer])
@pytest.mark.parametrize("place", ["before it decides", "before the commit"])
def test_a_command_in_which_the_process_stood_still_runs_once_more(dispatcher, database, place, standing):
    standstill = standing(1)

    def build(connection: Connection) -> Pay:
        if place == "before it decides":
            standstill(connection)
        return Pay(5)

    def answer(connection: Connection, outcome: Outcome) -> Outcome:
        if place == "before the commit":
            standstill(connection)
        return outcome

    outcome = dispatcher.execute(PURSE, "purse", build, metadata=METADATA, time=TIME, answer=answer)
    assert (outcome.version, standstill.times) == (1, 0)
    assert [event.position for event in stored(database)] == [1]
    assert balances(database) == {"purse": 5}


@pytest.mark.parametrize("standing", [Standstill, StandstillBeforeAnAnswer])
def test_a_process_that_stands_still_again_is_told_that_nothing_was_changed(dispatcher, database, standing):
    standstill = standing(2)
    with pytest.raises(DatabaseUnavailable, match=r"stalled.*25P03.*Nothing was changed"):
        pay(dispatcher, 5, answer=lambda connection, _: standstill(connection))
    assert (stored(database), balances(database)) == ([], {})


def test_a_projection_that_fails_takes_the_command_with_it(database):
    def fail(*_):
        raise ZeroDivisionError

    broken = Dispatcher(database.engine, registry(), [replace(BALANCES, apply=fail)])
    with pytest.raises(ZeroDivisionError):
        pay(broken, 1)
    assert stored(database) == []


def test_facts_read_by_build_stay_true_until_the_events_are_in(dispatcher, database):
    """Exactly one of twenty commands for one name, each on its own stream, gets the name."""

    def unless_taken(connection: Connection) -> Pay:
        if sample_projection.read(connection):
            raise AlreadyExists("The name is taken")
        return Pay(1)

    def claim(number: int) -> bool:
        try:
            dispatcher.execute(
                PURSE,
                f"purse-{number}",
                unless_taken,
                metadata=METADATA,
                time=TIME,
                answer=lambda *_: None,
            )
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(claim, range(20)))
    assert sum(claimed) == 1
    assert len(balances(database)) == 1


def test_programs_side_by_side_decide_on_each_others_events(dispatcher, database):
    other = Dispatcher(database.engine, registry(), [BALANCES])
    seen = []
    observer = Decider(0, lambda balance, command: seen.append(balance) or decide(balance, command), evolve)
    for number, each in enumerate([dispatcher, other] * 3):
        each.execute(observer, "purse", Pay(1), metadata=METADATA, time=TIME, answer=lambda *_: None)
        assert seen[-1] == number


def test_a_known_state_is_not_trusted_after_the_log_was_restored(dispatcher, database):
    seen = []
    observer = Decider(0, lambda balance, command: seen.append(balance) or decide(balance, command), evolve)

    def observed_pay() -> None:
        dispatcher.execute(observer, "purse", Pay(10), metadata=METADATA, time=TIME, answer=lambda *_: None)

    observed_pay()
    observed_pay()
    with database.owner.begin() as connection:
        connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
        for table in ("events", "projection_checkpoints", "sample_balances"):
            connection.execute(sa.text(f"DELETE FROM {table}"))
        connection.execute(sa.text("UPDATE event_log_head SET position = 0, hash = repeat('0', 64)"))
        log = PostgresEventLog(connection, registry())
        log.append("purse", 0, [paid(1)] * 5, metadata=METADATA, time=TIME)
    observed_pay()
    assert seen == [0, 10, 5]


def test_states_known_are_bounded(dispatcher, monkeypatch):
    monkeypatch.setattr(dispatch, "STATES_KEPT", 2)
    for number in range(4):
        for _ in range(2):
            pay(dispatcher, 1, stream=f"purse-{number}")
    assert [stream for _, stream in dispatcher._states._states] == ["purse-2", "purse-3"]


def test_events_that_a_stream_does_not_fold_are_skipped(dispatcher):
    other = Decider(0, lambda *_: [Noted(note="x")], evolve)
    dispatcher.execute(other, "purse", Pay(1), metadata=METADATA, time=TIME, answer=lambda *_: None)
    assert pay(dispatcher, 1).version == 2
