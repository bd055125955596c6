"""Promises of temporal rows on a connection, in a batch and in memory: the same writes give the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from backend.projections import temporal
from backend.projections.batched_rows import BatchedRows
from backend.projections.memory_rows import MemoryRows
from backend.projections.temporal import Rows
from tests.nightly import some_now

METADATA = sa.MetaData()
seats = temporal.temporal_table(
    "sample_seats",
    METADATA,
    sa.Column("row", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("guest", sa.Text),
    sa.Column("paid", sa.Integer),
)
KEY = {"row": "a", "number": 1}


@pytest.fixture
def connection(database) -> Iterator[sa.Connection]:
    METADATA.create_all(database.owner)
    with database.engine.connect() as connection:
        yield connection


@pytest.fixture(params=["memory", "batched", "postgres"])
def rows(request: pytest.FixtureRequest) -> Rows:
    if request.param == "memory":
        return MemoryRows()
    connection = request.getfixturevalue("connection")
    return Batched(connection) if request.param == "batched" else connection


class Batched(BatchedRows):
    """A batch that exposes its connection, to read what was written."""

    def __init__(self, connection: sa.Connection) -> None:
        super().__init__(connection)
        self.connection = connection

    def written(self) -> sa.Connection:
        self.write()
        return self.connection


def seat(rows: Rows, guest: str | None, position: int, key=None) -> None:
    values = {"guest": guest, "paid": None} if guest else None
    temporal.replace(rows, seats, key or KEY, values, position)


def history(rows: Rows) -> list[tuple]:
    if isinstance(rows, MemoryRows):
        return sorted(rows.rows(seats), key=_began)
    if isinstance(rows, Batched):
        rows = rows.written()
    assert isinstance(rows, sa.Connection)
    return sorted((tuple(row) for row in rows.execute(sa.select(seats))), key=_began)


def _began(row: tuple) -> tuple:
    return row[4], row[:2]


def test_rows_follow_each_other_without_gap_or_overlap(rows):
    for guest, position in (("Ann", 3), ("Bob", 5), (None, 9), ("Cid", 20)):
        seat(rows, guest, position)
    assert history(rows) == [
        ("a", 1, "Ann", None, 3, 5),
        ("a", 1, "Bob", None, 5, 9),
        ("a", 1, "Cid", None, 20, None),
    ]


def test_the_last_of_several_changes_at_one_position_stays(rows):
    for guest, position in (("Ann", 1), ("Bob", 4), ("Cid", 4), (None, 4), ("Dan", 4)):
        seat(rows, guest, position)
    assert history(rows) == [("a", 1, "Ann", None, 1, 4), ("a", 1, "Dan", None, 4, None)]


def test_a_row_that_began_and_ended_at_one_position_leaves_nothing(rows):
    seat(rows, "Ann", 4)
    seat(rows, None, 4)
    assert history(rows) == []


def test_ending_what_is_not_there_does_nothing(rows):
    seat(rows, None, 4)
    assert history(rows) == []


def test_a_change_keeps_what_it_does_not_name_and_makes_no_row(rows):
    seat(rows, "Ann", 1)
    temporal.change(rows, seats, KEY, {"paid": 7}, 2)
    temporal.change(rows, seats, {"row": "z", "number": 9}, {"paid": 7}, 3)
    assert temporal.current(rows, seats, KEY) == {**KEY, "guest": "Ann", "paid": 7}
    assert history(rows) == [("a", 1, "Ann", None, 1, 2), ("a", 1, "Ann", 7, 2, None)]


def test_open_rows_are_found_by_any_part_of_the_key(rows):
    for position, (row, number) in enumerate([("a", 1), ("a", 2), ("b", 1), ("b", 2)], start=1):
        seat(rows, "Ann", position, {"row": row, "number": number})

    def found(**matches) -> set[tuple]:
        return {(each["row"], each["number"]) for each in temporal.open_rows(rows, seats, matches)}

    assert found(row="a") == {("a", 1), ("a", 2)}
    seat(rows, None, 5, {"row": "a", "number": 2})
    seat(rows, "Bob", 6, {"row": "c", "number": 1})
    seat(rows, "Bob", 7, {"row": "b", "number": 1})
    assert found(row="a") == {("a", 1)}
    assert found(number=1) == {("a", 1), ("b", 1), ("c", 1)}
    assert found(row="b", number=1) == {("b", 1)}
    assert found() == {("a", 1), ("b", 1), ("b", 2), ("c", 1)}
    assert found(row="z") == set()


def test_what_was_found_can_be_changed_without_changing_the_rows(rows):
    seat(rows, "Ann", 1)
    present = temporal.current(rows, seats, KEY)
    assert present is not None
    present["guest"] = "Eve"
    assert history(rows) == [("a", 1, "Ann", None, 1, None)]


def test_rows_in_memory_are_looked_up_by_their_key_only():
    with pytest.raises(ValueError, match="guest"):
        temporal.open_rows(MemoryRows(), seats, {"guest": "Ann"})


@some_now("seed", range(4), now=(0,))
@pytest.mark.parametrize("writes_of_a_batch", [None, 1, 7, 1000])
def test_any_writes_give_the_same_rows_in_memory_as_in_the_database(connection, seed, writes_of_a_batch):
    source, memory, position = random.Random(seed), MemoryRows(), 1
    rows: Rows = Batched(connection) if writes_of_a_batch else connection
    for step in range(150):
        # Several writes share a position, as those of one event do; a batch ends between events.
        if source.random() < 0.4:
            position += 1
            if isinstance(rows, Batched) and source.random() < 1 / writes_of_a_batch:
                rows = Batched(rows.written())
        write_at_random(source, (memory, rows), step, position)
        # Not always: rows that were read are known to a batch, and take another code path.
        if source.random() < 0.2:
            part = source.choice(({"row": "a"}, {"number": 2}, {}, {"row": "b", "number": 1}))
            looks = [sorted(temporal.open_rows(each, seats, part), key=str) for each in (memory, rows)]
            assert looks[0] == looks[1]
    assert history(memory) == history(rows)


def write_at_random(source: random.Random, holders: tuple[Rows, ...], step: int, position: int) -> None:
    key = {"row": source.choice("ab"), "number": source.randint(1, 2)}
    guest = source.choice(("Ann", "Bob", None))
    is_change = source.random() < 0.3
    for rows in holders:
        if is_change:
            temporal.change(rows, seats, key, {"paid": step}, position)
        else:
            seat(rows, guest, position, key)
