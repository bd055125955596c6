"""Bulk loading gives the same chain as appending one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.faults import NotStorable
from backend.eventlog.memory import MemoryEventLog
from backend.eventlog.recorded import Entry
from backend.eventlog.store import PostgresEventLog
from backend.queries.base import events as queries
from tests.support.database.sample_events import METADATA, TIME, Coin, Noted, paid, registry


def entries(count: int) -> list[Entry]:
    return [
        Entry.of(
            registry(),
            f"purse-{number % 7}",
            paid(number, Coin("gold", number)) if number % 3 else Noted(note=f"№ {number} \\ \t \n \"'"),
            METADATA,
            TIME + timedelta(seconds=number),
        )
        for number in range(count)
    ]


def test_a_seeded_log_verifies_and_can_be_appended_to(database):
    with database.engine.begin() as connection:
        head = bulk_load(connection, registry(), entries(2000))
        log = PostgresEventLog(connection, registry())
        log.append("purse-0", log.version("purse-0"), [paid(1)], metadata=METADATA, time=TIME)
        bulk_load(connection, registry(), entries(10))
    with database.engine.connect() as connection:
        report = queries.verification(connection, head)
    assert report.ok, report
    assert report.events == 2011


def test_seeding_and_appending_give_the_same_hashes(database):
    twin = MemoryEventLog(registry())
    for entry in entries(50):
        event = registry().decode(entry.name, entry.schema_version, entry.data)
        twin.append(entry.stream, twin.version(entry.stream), [event], metadata=METADATA, time=entry.time)
    with database.engine.connect() as connection:
        assert bulk_load(connection, registry(), entries(50)) == twin.head()
        assert queries.list_events(connection, limit=100) == twin.stored(0, 100)


def test_a_restored_log_ends_at_the_exported_head(database):
    with database.engine.connect() as connection:
        exported_head = bulk_load(connection, registry(), entries(20))
        exported = queries.list_events(connection, limit=100)
        connection.rollback()
        restored = [Entry(e.stream, e.name, e.schema_version, e.data, e.metadata, e.time) for e in exported]
        assert bulk_load(connection, registry(), restored) == exported_head


def test_an_entry_that_cannot_be_stored_stops_all_of_it(database):
    bad = Entry.of(registry(), "a", Noted(note="\x00"), METADATA, TIME)
    with pytest.raises(NotStorable), database.engine.begin() as connection:
        bulk_load(connection, registry(), [*entries(5), bad])
    with database.engine.connect() as connection:
        assert queries.head(connection).position == 0
