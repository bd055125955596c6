"""Measures of tasks are stored, however many there are, and leases do not wait for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import EdgePlan, Endpoint
from backend.domain.records.partition_edge import EdgeRule
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.measuring import Copies
from backend.queries.base.observed import shifts
from backend.queries.distribution.stream_measures import stream_measures
from backend.settings import settings
from tests.support.database.postgres import Database
from workers.distribution.distributor import DistributorThread
from workers.distribution.worker_session import TaskHost, copy_limits
from workers.measures import MOST_ROWS, MeasureBook

TASK = Task("c1", 2, 0)
GONE = Task("c1", 2, 1)


class Measured:
    """A task with measures of this many streams."""

    def __init__(self, streams: int, task: Task = TASK) -> None:
        self.task = task
        self.streams = streams
        self.records = 0

    def take_measures(self) -> list[dict[str, Any]]:
        self.records += 1
        counts = {"records": self.records, "bytes": 0, "passed": 0, "lag_records": 0}
        times = {"newest_ms": None, "copied_ms": None, "latency_ms": None, "checkpoint_ms": None}
        return [
            {"unit": self.task.name, "stream": f"t/i/e/s{number:06}", "epoch": 1, **counts, **times}
            for number in range(self.streams)
        ]


def written(database: Database) -> list[int]:
    """Return the record count of each stored row."""
    with database.engine.connect() as connection:
        return list(connection.execute(sa.select(stream_measures.c.records)).scalars())


def waiting_task() -> DistributorThread:
    """Return a task that may open no session now, and has counted two records before."""
    end = Endpoint(name="c1", number=1, bootstrap_servers="127.0.0.1:9", properties={})
    control_plane, copies = ControlPlane(), Copies()
    copies.add(2, 20, 0, 0)
    control_plane.measures.committed("t/i/e/s", copies, 2)
    plan = EdgePlan(
        task=TASK,
        source=end,
        target=end,
        rule=EdgeRule(source_number=1, level=2, known_origins=frozenset({1})),
        routes={},
        routes_version=1,
        buckets=2,
        inbound_groups=(),
        streams=(),
    )
    return DistributorThread(TASK, 1, copy_limits(settings()), lambda _: "not now", control_plane, plan, 1)


@contextmanager
def locked(database: Database) -> Iterator[None]:
    """Lock the table of measures against all other writers."""
    with database.owner.begin() as connection:
        connection.execute(sa.text("LOCK TABLE stream_measures IN ACCESS EXCLUSIVE MODE"))
        yield


def test_many_rows_are_written_in_turns_and_each_gets_its_turn(database: Database) -> None:
    book, task = MeasureBook(database.engine), Measured(2 * MOST_ROWS + 1)
    for turn in (MOST_ROWS, 2 * MOST_ROWS, 2 * MOST_ROWS + 1):
        book.take([task])
        book.write()
        assert len(written(database)) == turn
    # Rows that waited were written in turn, with their newest values.
    assert sorted(set(written(database))) == [1, 2, 3]


def test_what_could_not_be_written_is_written_another_time(database: Database) -> None:
    book = MeasureBook(database.engine)
    book.take([Measured(3)])
    with locked(database):
        book.write()
    assert written(database) == []
    book.write()
    assert written(database) == [1, 1, 1]


def test_all_that_a_task_counted_is_written_before_it_is_let_go(database: Database) -> None:
    book = MeasureBook(database.engine)
    book.take([Measured(MOST_ROWS)])
    book.write_last([Measured(MOST_ROWS + 1, GONE)])
    with database.engine.connect() as connection:
        tasks = list(connection.execute(sa.select(stream_measures.c.unit)).scalars())
    assert tasks.count(GONE.name) == MOST_ROWS + 1
    with locked(database):
        book.write_last([Measured(1, GONE)])


def test_a_session_that_ends_writes_what_its_tasks_counted_since(database: Database) -> None:
    host, thread = TaskHost(database.engine, settings()), waiting_task()
    host._threads[thread.task] = thread
    thread.start()
    host.let_go()
    assert written(database) == [2]


def test_a_session_is_reported_while_measures_cannot_be_written(database: Database) -> None:
    host = TaskHost(database.engine, settings())
    host._measures.take([Measured(3)])
    with locked(database):
        host.run_session(0.001, lambda _: False)
        with database.engine.connect() as connection:
            assert host.holder in connection.execute(sa.select(shifts.c.holder)).scalars().all()
    assert written(database) == []
