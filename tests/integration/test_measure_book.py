"""What units measure is written down, however much it is, and leases do not wait for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from backend.domain.assignment import Unit
from backend.queries.observed import shifts
from backend.queries.stream_measures import stream_measures
from backend.settings import settings
from tests.database_fixture import Database
from workers.measures import MOST_ROWS, MeasureBook
from workers.shift import UnitHost

UNIT = Unit("c1", 2, 0)


class Measured:
    """A unit that has measured so many streams."""

    def __init__(self, streams: int) -> None:
        self.unit = UNIT
        self.streams = streams
        self.records = 0

    def take_measures(self) -> list[dict[str, Any]]:
        self.records += 1
        counts = {"records": self.records, "bytes": 0, "lag_records": 0}
        times = {"newest_ms": None, "latency_ms": None, "checkpoint_ms": None}
        return [
            {"unit": UNIT.name, "stream": f"t/i/e/s{number:06}", "epoch": 1, **counts, **times}
            for number in range(self.streams)
        ]


def written(database: Database) -> list[int]:
    """How many records each row that is there tells of."""
    with database.engine.connect() as connection:
        return list(connection.execute(sa.select(stream_measures.c.records)).scalars())


@contextmanager
def locked(database: Database) -> Iterator[None]:
    """Nobody else can write measures."""
    with database.owner.begin() as connection:
        connection.execute(sa.text("LOCK TABLE stream_measures IN ACCESS EXCLUSIVE MODE"))
        yield


def test_many_rows_are_written_in_turns_and_each_gets_its_turn(database: Database) -> None:
    book, unit = MeasureBook(database.engine), Measured(2 * MOST_ROWS + 1)
    for turn in (MOST_ROWS, 2 * MOST_ROWS, 2 * MOST_ROWS + 1):
        book.take([unit])
        book.write()
        assert len(written(database)) == turn
    # Rows that waited were written as they were in their turn.
    assert sorted(set(written(database))) == [1, 2, 3]


def test_what_could_not_be_written_is_written_another_time(database: Database) -> None:
    book = MeasureBook(database.engine)
    book.take([Measured(3)])
    with locked(database):
        book.write()
    assert written(database) == []
    book.write()
    assert written(database) == [1, 1, 1]


def test_a_shift_is_reported_while_measures_cannot_be_written(database: Database) -> None:
    host = UnitHost(database.engine, settings())
    host._measures.take([Measured(3)])
    with locked(database):
        host.run_shift(0.001, lambda _: False)
        with database.engine.connect() as connection:
            assert host.holder in connection.execute(sa.select(shifts.c.holder)).scalars().all()
    assert written(database) == []
