"""History cannot be changed by the application, and a change by another program is detected."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError

from backend.eventlog.recorded import EMPTY
from backend.eventlog.store import PostgresEventLog
from backend.queries.base import events as queries
from tests.support.database.postgres import Database
from tests.support.database.sample_events import METADATA, TIME, paid, registry


@pytest.fixture
def filled(database: Database) -> Database:
    """Return a database with ten events in two streams."""
    with database.engine.begin() as connection:
        log = PostgresEventLog(connection, registry())
        for version in range(5):
            for stream in ("a", "b"):
                log.append(stream, version, [paid(version)], metadata=METADATA, time=TIME)
    return database


CHANGES = ["UPDATE events SET name = 'x'", "DELETE FROM events", "TRUNCATE events"]


@pytest.mark.parametrize("statement", CHANGES)
def test_the_application_has_no_right_to_change_history(filled, statement):
    with filled.engine.connect() as connection, pytest.raises(ProgrammingError, match="permission denied"):
        connection.execute(sa.text(statement))


@pytest.mark.parametrize("statement", CHANGES)
def test_even_the_owner_is_refused(filled, statement):
    with filled.owner.connect() as connection, pytest.raises(ProgrammingError, match="only grows"):
        connection.execute(sa.text(statement))


@pytest.mark.parametrize("statement", ["DELETE FROM event_log_head", "TRUNCATE event_log_head"])
def test_the_application_cannot_remove_the_head(filled, statement):
    with filled.engine.connect() as connection, pytest.raises(ProgrammingError, match="permission denied"):
        connection.execute(sa.text(statement))


def tamper(database: Database, *statements: str) -> None:
    with database.owner.begin() as connection:
        connection.execute(sa.text("SET LOCAL session_replication_role = replica"))  # no triggers
        for statement in statements:
            connection.execute(sa.text(statement))


FORGED = (
    "INSERT INTO events SELECT {position}, 'c', 1, name, schema_version, data, metadata, time, "
    "{previous}, 'beef' FROM events WHERE position = 1"
)


@pytest.mark.parametrize(
    ("broken_at", "statements"),
    [
        (4, ["UPDATE events SET data = data || '{\"amount\": 999}' WHERE position = 4"]),
        (4, ["UPDATE events SET data = data - 'currency' WHERE position = 4"]),
        (4, ['UPDATE events SET metadata = metadata || \'{"actor": "nobody"}\' WHERE position = 4']),
        (4, ["UPDATE events SET metadata = metadata || '{\"more\": 1}' WHERE position = 4"]),
        (4, ["UPDATE events SET metadata = '[]' WHERE position = 4"]),
        (4, ["UPDATE events SET time = time + interval '1 microsecond' WHERE position = 4"]),
        (4, ["UPDATE events SET name = 'Noted' WHERE position = 4"]),
        (4, ["UPDATE events SET schema_version = 1 WHERE position = 4"]),
        (4, ["UPDATE events SET stream = 'c' WHERE position = 4"]),
        (7, ["UPDATE events SET version = 9 WHERE position = 7"]),
        (4, ["UPDATE events SET hash = 'beef' WHERE position = 4"]),
        (4, ["UPDATE events SET previous_hash = 'beef' WHERE position = 4"]),
        (4, ["DELETE FROM events WHERE position = 4"]),
        (1, ["DELETE FROM events WHERE position = 1"]),
        (1, ["DELETE FROM events"]),
        (10, ["DELETE FROM events WHERE position = 10"]),
        (
            3,
            [
                "UPDATE events SET position = 100 WHERE position = 3",
                "UPDATE events SET position = 3 WHERE position = 5",
                "UPDATE events SET position = 5 WHERE position = 100",
            ],
        ),
        (11, [FORGED.format(position=11, previous="(SELECT hash FROM event_log_head)")]),
        (0, [FORGED.format(position=0, previous="repeat('0', 64)")]),
        (10, ["UPDATE event_log_head SET hash = 'beef'"]),
        (11, ["UPDATE event_log_head SET position = 11"]),
        (0, ["UPDATE event_log_head SET position = 0, hash = 'beef'"]),
    ],
)
def test_what_was_tampered_with_is_named(filled, broken_at, statements):
    tamper(filled, *statements)
    with filled.engine.connect() as connection:
        report = queries.verification(connection)
    assert (report.ok, report.broken_at) == (False, broken_at), report
    assert report.reason


def test_a_cut_tail_shows_against_an_exported_head(filled):
    with filled.engine.connect() as connection:
        exported = queries.head(connection)
    assert exported.position == 10
    tamper(
        filled,
        "DELETE FROM events WHERE position > 8",
        "UPDATE event_log_head h SET position = 8, hash = e.hash FROM events e WHERE e.position = 8",
    )
    with filled.engine.connect() as connection:
        assert queries.verification(connection).ok  # consistent in itself: the cut was clean
        report = queries.verification(connection, exported)
    assert (report.ok, report.broken_at, report.events) == (False, 9, 8)


def test_a_log_that_was_emptied_and_written_anew_shows_against_an_exported_head(filled):
    with filled.engine.connect() as connection:
        exported = queries.head(connection)
    tamper(
        filled,
        "DELETE FROM events",
        f"UPDATE event_log_head SET position = 0, hash = '{EMPTY.hash}'",
    )
    with filled.engine.begin() as connection:
        log = PostgresEventLog(connection, registry())
        log.append("a", 0, [paid(1)] * 12, metadata=METADATA, time=TIME)
    with filled.engine.connect() as connection:
        assert queries.verification(connection).ok
        report = queries.verification(connection, exported)
    assert (report.ok, report.broken_at) == (False, 10)
