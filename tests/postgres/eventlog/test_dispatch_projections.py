"""Projections: live rows, rebuilt rows and rows as of any earlier position all tell the same story."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from backend.dispatch import Decider, Dispatcher
from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.recorded import Entry
from backend.eventlog.store import PostgresEventLog
from backend.projections import rebuilding, runner, temporal
from tests.support.database import sample_projection
from tests.support.database.sample_events import METADATA, TIME, Noted, Pay, decide, evolve, paid, registry
from tests.support.database.sample_projection import BALANCES, balances

PURSE = Decider(0, decide, evolve)
PAYMENTS = [("a", 1), ("b", 10), ("a", 2), ("a", 3), ("c", 100), ("b", 20)]


@pytest.fixture
def dispatcher(database):
    sample_projection.create_tables(database.owner)
    return Dispatcher(database.engine, registry(), [BALANCES])


def pay_all(dispatcher, payments=PAYMENTS) -> None:
    for stream, amount in payments:
        dispatcher.execute(PURSE, stream, Pay(amount), metadata=METADATA, time=TIME, answer=lambda *_: None)


def rows(database) -> list[tuple]:
    with database.engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(sa.select(balances)))


def place(database) -> int:
    with database.engine.connect() as connection:
        return runner.positions(connection, [BALANCES])["sample_balances"]


def test_every_earlier_position_can_be_read(dispatcher, database):
    pay_all(dispatcher)
    with database.engine.connect() as connection:
        log = PostgresEventLog(connection, registry())
        for at in range(len(PAYMENTS) + 1):
            folded: dict[str, int] = {}
            for stream, amount in PAYMENTS[:at]:
                folded[stream] = folded.get(stream, 0) + amount
            assert sample_projection.read(connection, at) == folded
            for stream in folded:
                past = log.read(stream, until_position=at)
                assert sum(e.event.amount for e in past) == folded[stream]
        assert sample_projection.read(connection) == folded


def test_a_rebuild_gives_the_rows_that_live_projection_gave(dispatcher, database):
    pay_all(dispatcher)
    live = rows(database)
    assert len(live) == len(PAYMENTS)
    assert rebuilding.rebuild(database.engine, registry(), BALANCES) == len(PAYMENTS)
    assert rows(database) == live
    assert place(database) == len(PAYMENTS)


def test_a_rebuild_repairs_rows_that_somebody_changed(dispatcher, database):
    pay_all(dispatcher)
    live = rows(database)
    with database.owner.begin() as connection:
        connection.execute(sa.update(balances).values(balance=0))
    rebuilding.rebuild(database.engine, registry(), BALANCES)
    assert rows(database) == live


def test_readers_see_the_old_rows_until_a_rebuild_is_complete(dispatcher, database):
    pay_all(dispatcher)
    live = rows(database)
    during = []

    def look_and_apply(connection, recorded):
        during.append(rows(database))
        BALANCES.apply(connection, recorded)

    rebuilding.rebuild(database.engine, registry(), replace(BALANCES, apply=look_and_apply))
    assert during == [live] * len(PAYMENTS)


def test_a_rebuild_that_fails_leaves_the_rows(dispatcher, database):
    pay_all(dispatcher)
    live = rows(database)

    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rebuilding.rebuild(database.engine, registry(), replace(BALANCES, apply=fail))
    assert rows(database) == live
    assert place(database) == len(PAYMENTS)


def test_a_projection_added_later_catches_up_over_many_pages(database, monkeypatch):
    monkeypatch.setattr(runner, "PAGE_EVENTS", 7)
    with database.engine.begin() as connection:
        events = [paid(n) if n % 4 else Noted(note=n) for n in range(100)]
        bulk_load(connection, registry(), [Entry.of(registry(), "a", e, METADATA, TIME) for e in events])
    sample_projection.create_tables(database.owner)
    Dispatcher(database.engine, registry(), [BALANCES]).catch_up()
    with database.engine.connect() as connection:
        assert sample_projection.read(connection) == {"a": sum(n for n in range(100) if n % 4)}
    assert place(database) == 100


def test_events_that_no_projection_wants_move_the_checkpoint_all_the_same(dispatcher, database):
    other = Decider(0, lambda *_: [Noted(note="x")], evolve)
    dispatcher.execute(other, "a", Pay(1), metadata=METADATA, time=TIME, answer=lambda *_: None)
    assert place(database) == 1
    assert rows(database) == []


def test_an_event_is_applied_once_however_often_one_catches_up(dispatcher, database):
    pay_all(dispatcher)
    live = rows(database)
    for _ in range(3):
        dispatcher.catch_up()
    assert rows(database) == live


def test_two_projections_at_different_places_each_get_what_they_lack(dispatcher, database):
    seen = []
    late = replace(BALANCES, name="late", apply=lambda _, recorded: seen.append(recorded.position))
    pay_all(dispatcher)
    live = rows(database)
    both = Dispatcher(database.engine, registry(), [BALANCES, late])
    pay_all(both, [("a", 1)])
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert len(rows(database)) == len(live) + 1


class TestTemporalTables:
    @pytest.fixture
    def connection(self, database):
        sample_projection.create_tables(database.owner)
        with database.engine.connect() as connection:
            yield connection

    def history(self, connection):
        query = sa.select(balances.c.balance, balances.c.valid_from, balances.c.valid_to)
        return [tuple(row) for row in connection.execute(query.order_by(balances.c.valid_from))]

    def test_rows_follow_each_other_without_gap_or_overlap(self, connection):
        for position in (3, 5, 9):
            temporal.replace(connection, balances, {"purse": "a"}, {"balance": position}, position)
        temporal.replace(connection, balances, {"purse": "a"}, None, 12)
        temporal.replace(connection, balances, {"purse": "a"}, {"balance": 20}, 20)
        assert self.history(connection) == [(3, 3, 5), (5, 5, 9), (9, 9, 12), (20, 20, None)]
        at = {2: None, 3: 3, 4: 3, 5: 5, 11: 9, 12: None, 19: None, 20: 20, 99: 20}
        assert {p: sample_projection.read(connection, p).get("a") for p in at} == at

    def test_the_last_of_two_changes_at_one_position_stays(self, connection):
        temporal.replace(connection, balances, {"purse": "a"}, {"balance": 1}, 1)
        temporal.replace(connection, balances, {"purse": "a"}, {"balance": 2}, 4)
        temporal.replace(connection, balances, {"purse": "a"}, {"balance": 3}, 4)
        assert self.history(connection) == [(1, 1, 4), (3, 4, None)]

    def test_a_change_keeps_what_it_does_not_name(self, connection):
        temporal.replace(connection, balances, {"purse": "a"}, {"balance": 1}, 1)
        temporal.change(connection, balances, {"purse": "a"}, {"balance": 5}, 2)
        temporal.change(connection, balances, {"purse": "never seen"}, {"balance": 5}, 3)
        assert temporal.current(connection, balances, {"purse": "a"}) == {"purse": "a", "balance": 5}
        assert self.history(connection) == [(1, 1, 2), (5, 2, None)]

    def test_a_key_has_one_open_row_whatever_the_code_does(self, connection):
        temporal.replace(connection, balances, {"purse": "a"}, {"balance": 1}, 1)
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(sa.insert(balances).values(purse="a", balance=2, valid_from=2))
