"""Waiters are woken by commits, and find their way back after PostgreSQL was away."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.eventlog.engine import create_engine
from backend.eventlog.listen import EventListener
from backend.eventlog.store import PostgresEventLog
from tests.nightly import some_now
from tests.support.database.sample_events import METADATA, TIME, paid, registry

LONG_SECONDS = 60.0  # a limit for a broken test, not a promise


def append(engine, stream: str) -> int:
    with engine.begin() as connection:
        log = PostgresEventLog(connection, registry())
        [recorded] = log.append(stream, log.version(stream), [paid(1)], metadata=METADATA, time=TIME)
        return recorded.position


def test_many_threads_are_woken_by_one_commit(database):
    with EventListener(database.engine) as listener, ThreadPoolExecutor(10) as pool:
        waiters = [pool.submit(listener.wait_for_events, 0, LONG_SECONDS) for _ in range(10)]
        position = append(database.engine, "a")
        assert [waiter.result() for waiter in waiters] == [position] * 10


def test_what_happened_before_the_listener_started_counts(database):
    append(database.engine, "a")
    with EventListener(database.engine) as listener:
        assert listener.wait_for_events(0, LONG_SECONDS) == 1


def test_a_waiter_without_news_returns_at_its_timeout(database):
    with EventListener(database.engine) as listener:
        assert listener.wait_for_events(0, 0.01) == 0
        assert asyncio.run(listener.wait_for_events_async(0, 0.01)) == 0


def test_coroutines_are_woken_without_blocking_their_loop(database):
    async def scenario(listener: EventListener) -> list[int]:
        waiters = [asyncio.create_task(listener.wait_for_events_async(0, LONG_SECONDS)) for _ in range(10)]
        # The append runs on this loop's own pool: waiters that blocked the loop would never see it.
        await asyncio.to_thread(append, database.engine, "a")
        return await asyncio.gather(*waiters)

    with EventListener(database.engine) as listener:
        assert asyncio.run(scenario(listener)) == [1] * 10


def test_a_coroutine_that_is_cancelled_leaves_nothing_behind(database):
    async def scenario(listener: EventListener) -> None:
        waiter = asyncio.create_task(listener.wait_for_events_async(0, LONG_SECONDS))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    with EventListener(database.engine) as listener:
        asyncio.run(scenario(listener))
        assert listener._wakers == set()
        append(database.engine, "a")
        assert listener.wait_for_events(0, LONG_SECONDS) == 1


def test_stop_wakes_everybody(database):
    with ThreadPoolExecutor(2) as pool:
        listener = EventListener(database.engine)
        listener.start()
        waiting = pool.submit(listener.wait_for_events, 0, LONG_SECONDS)
        listener.stop()
        assert waiting.result() == 0


@some_now("how", ["stop", "kill"], now=(1,))
def test_a_listener_survives_a_restart_of_postgresql(own_postgres, how):
    engine = create_engine(own_postgres.url)
    with EventListener(engine) as listener, ThreadPoolExecutor(1) as pool:
        append(engine, "a")
        assert listener.wait_for_events(0, LONG_SECONDS) == 1
        waiting = pool.submit(listener.wait_for_events, 1, LONG_SECONDS)
        getattr(own_postgres, how)()
        own_postgres.start()
        # A connection of the pool died with the server; callers do not notice.
        position = append(engine, "a")
        assert waiting.result() == position == 2
    engine.dispose()


def test_a_listener_that_starts_before_postgresql_joins_later(own_postgres):
    own_postgres.stop()
    engine = create_engine(own_postgres.url)
    with EventListener(engine) as listener:
        own_postgres.start()
        append(engine, "a")
        assert listener.wait_for_events(0, LONG_SECONDS) == 1
    engine.dispose()
