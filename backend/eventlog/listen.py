"""Wake-ups for waiters on new events: one LISTEN connection per process serves all waiters.

A wake-up is only a hint: a waiter that is woken, or has waited long enough, reads the feed after its own position.
So a notification lost while PostgreSQL restarts costs time, not events.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
import sqlalchemy as sa
import structlog
from sqlalchemy import Engine

from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.store import CHANNEL
from backend.eventlog.tables import event_log_head

logger = structlog.get_logger(__name__)

# How long a silent connection is trusted: a cut network looks like a log without new events.
HEARTBEAT_SECONDS = 5.0
STOP_SECONDS = 0.5  # how late `stop` may be noticed
RECONNECT_SECONDS = 0.2


class EventListener:
    """Follows the log's head on a thread of its own, from `start` to `stop`. Create it after a fork."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._condition = threading.Condition()
        self._position = 0
        self._wakers: set[Callable[[], object]] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wake all waiters; returns when the thread has ended."""
        self._stopping.set()
        self._advance(self._position, wake_all=True)
        self._thread.join()

    def __enter__(self) -> EventListener:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for_events(self, after: int, timeout_seconds: float) -> int:
        """Block until there are events after a position, or the time is over; returns the newest position."""
        with self._condition:
            self._condition.wait_for(lambda: self._position > after or self._stopping.is_set(), timeout_seconds)
            return self._position

    async def wait_for_events_async(self, after: int, timeout_seconds: float) -> int:
        """Wait as `wait_for_events` does, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            # The loop may be closing while the listener still runs.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        with self._condition:
            if self._position > after or self._stopping.is_set():
                return self._position
            self._wakers.add(wake)
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._position <= after and not self._stopping.is_set():
                    woken.clear()
                    await woken.wait()
        except TimeoutError:
            pass
        finally:
            with self._condition:
                self._wakers.discard(wake)
        return self._position

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (DatabaseUnavailable, psycopg.OperationalError) as error:
                logger.warning("event listener lost its database connection", error=str(error))
                self._stopping.wait(RECONNECT_SECONDS)

    def _follow(self) -> None:
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with autocommit.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None  # before `detach`, which forgets it
            # A pooled connection that still listens would deliver stale notifications to its next user.
            connection.detach()
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            while not self._stopping.is_set():
                # Read after LISTEN, so that nothing falls between the two; again at each heartbeat.
                self._advance(connection.execute(sa.select(event_log_head.c.position)).scalar_one())
                silent_until = time.monotonic() + HEARTBEAT_SECONDS
                while time.monotonic() < silent_until and not self._stopping.is_set():
                    for notification in driver.notifies(timeout=STOP_SECONDS, stop_after=1):
                        self._advance(int(notification.payload))

    def _advance(self, position: int, *, wake_all: bool = False) -> None:
        with self._condition:
            if position == self._position and not wake_all:
                return
            # The head is taken as it is, also when lower: after a restore the log's head is behind the last one
            # seen.
            self._position = position
            self._condition.notify_all()
            wakers = list(self._wakers)
        for wake in wakers:
            wake()
