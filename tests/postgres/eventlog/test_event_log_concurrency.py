"""Many writers at once, and a reader that follows the feed and must miss nothing."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from backend.dispatch import Decider, Dispatcher
from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable, LogBusy, WrongExpectedVersion
from backend.eventlog.listen import EventListener
from backend.eventlog.store import PostgresEventLog
from tests.support.database.postgres import Database
from tests.support.database.sample_events import METADATA, TIME, Pay, decide, evolve, paid, registry

PURSE = Decider(0, decide, evolve)
STREAMS = 3


def follow(database: Database, until: int, page: int = 7) -> list[tuple[int, str, int]]:
    """Read the feed by position only, as projections and server-sent events do, up to a position."""
    seen: list[tuple[int, str, int]] = []
    with EventListener(database.engine) as listener:
        while not seen or seen[-1][0] < until:
            after = seen[-1][0] if seen else 0
            with database.engine.connect() as connection:
                found = PostgresEventLog(connection, registry()).feed(after, page)
            seen += [(e.position, e.stream, e.version) for e in found]
            if not found:
                listener.wait_for_events(after, timeout_seconds=1.0)
    return seen


def check_followed(database: Database, seen: list[tuple[int, str, int]], count: int) -> None:
    assert [position for position, _, _ in seen] == list(range(1, count + 1))
    for stream in {stream for _, stream, _ in seen}:
        versions = [version for _, name, version in seen if name == stream]
        assert versions == list(range(1, len(versions) + 1))
    with database.engine.connect() as connection:
        report = PostgresEventLog(connection, registry()).verify()
    assert report.ok, report
    assert report.events == count


def append_with_retry(database: Database, writer: int, count: int) -> None:
    for number in range(count):
        stream = f"purse-{(writer + number) % STREAMS}"
        while True:
            try:
                with database.engine.begin() as connection:
                    log = PostgresEventLog(connection, registry())
                    # Read outside the lock on purpose: the version may be outdated by the time of the append.
                    log.append(stream, log.version(stream), [paid(number)], metadata=METADATA, time=TIME)
                break
            except WrongExpectedVersion:
                continue


def test_a_follower_misses_nothing_of_many_threads(database):
    writers, each = 8, 25
    with ThreadPoolExecutor(writers + 1) as pool:
        following = pool.submit(follow, database, writers * each)
        for done in [pool.submit(append_with_retry, database, n, each) for n in range(writers)]:
            done.result()
        seen = following.result()
    check_followed(database, seen, writers * each)


def pay_in_process(url: str, writer: int, count: int) -> None:
    engine = create_engine(url)
    dispatcher = Dispatcher(engine, registry(), ())
    for number in range(count):
        stream = f"purse-{(writer + number) % STREAMS}"
        dispatcher.execute(PURSE, stream, Pay(1), metadata=METADATA, time=TIME, answer=lambda _, o: o)
    engine.dispose()


@pytest.mark.nightly  # of many threads stays
def test_a_follower_misses_nothing_of_many_processes(database):
    writers, each = 3, 40
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=pay_in_process, args=(database.url, n, each)) for n in range(writers)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow, database, writers * each)
        for process in processes:
            process.join()
            assert process.exitcode == 0
        seen = following.result()
    check_followed(database, seen, writers * each)


def test_a_second_writer_waits_until_the_first_commits(database):
    """The append lock keeps the second writer from committing position 2 first."""
    with database.engine.connect() as first, ThreadPoolExecutor(1) as pool:
        PostgresEventLog(first, registry()).append("a", 0, [paid(1)], metadata=METADATA, time=TIME)

        def second() -> int:
            with database.engine.begin() as connection:
                log = PostgresEventLog(connection, registry())
                return log.append("b", 0, [paid(2)], metadata=METADATA, time=TIME)[0].position

        waiting = pool.submit(second)
        wait_until_blocked(database, writers=1)
        with database.engine.connect() as reader:
            assert PostgresEventLog(reader, registry()).feed(0, 10) == []
        first.commit()
        assert waiting.result() == 2


def test_a_rolled_back_append_leaves_no_gap(database):
    with database.engine.connect() as connection:
        PostgresEventLog(connection, registry()).append("a", 0, [paid(1)], metadata=METADATA, time=TIME)
    with database.engine.begin() as connection:
        log = PostgresEventLog(connection, registry())
        [recorded] = log.append("b", 0, [paid(2)], metadata=METADATA, time=TIME)
    assert recorded.position == 1


def test_who_waits_too_long_for_the_lock_is_told_to_come_back(database):
    impatient = create_engine(database.url, lock_timeout_ms=50)
    with database.engine.connect() as holder, impatient.connect() as waiter:
        PostgresEventLog(holder, registry()).lock()
        with pytest.raises(LogBusy):
            PostgresEventLog(waiter, registry()).lock()
    impatient.dispose()


def test_a_transaction_that_stands_still_loses_the_lock(database):
    """A process stopped in mid-command (SIGSTOP) must not keep all others from writing."""
    stopped = create_engine(database.url, idle_in_transaction_timeout_ms=100)
    with stopped.connect() as holder:
        PostgresEventLog(holder, registry()).append("a", 0, [paid(1)], metadata=METADATA, time=TIME)
        with database.engine.begin() as other:
            log = PostgresEventLog(other, registry())
            [recorded] = log.append("a", 0, [paid(2)], metadata=METADATA, time=TIME)
        with pytest.raises(DatabaseUnavailable):
            holder.commit()
    stopped.dispose()
    assert recorded.position == 1
    with database.engine.connect() as connection:
        assert [e.event.amount for e in PostgresEventLog(connection, registry()).feed(0, 10)] == [2]


def wait_until_blocked(database: Database, writers: int) -> None:
    blocked = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    pause = threading.Event()
    while True:
        with database.owner.connect() as connection:
            if connection.scalar(blocked) == writers:
                return
        pause.wait(0.01)
