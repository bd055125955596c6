"""Host of runs of one kind (switches, placements): one thread for each, in the process that has its lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import structlog
from sqlalchemy import Connection, Engine

from backend.settings import Settings
from workers.leases.process_lease import ProcessLease

log = structlog.get_logger("runs")

IsMine = Callable[[str], bool]
"""Renews a run's lease; returns False, for good, if another process has had it since the run started."""


class RunHost:
    """The runs of one kind in one process; `tick` is called about once a second and waits for nothing."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        kind: str,
        find: Callable[[Connection], Iterable[str]],
        run: Callable[[str, IsMine], None],
    ) -> None:
        """Create the host.

        `find` reads the ids of open runs; `run` works on one until it has ended or its lease is lost.
        """
        self._engine, self._settings, self._kind, self._find, self._run = engine, settings, kind, find, run
        self._threads: dict[str, threading.Thread] = {}

    def tick(self) -> None:
        """Start, or resume, the runs that no process works on. Raises DomainError."""
        with self._engine.connect() as connection:
            wanted = list(self._find(connection))
        self._threads = {each: thread for each, thread in self._threads.items() if thread.is_alive()}
        for each in wanted:
            if each not in self._threads:
                self._begin(each)

    def _begin(self, each: str) -> None:
        lease = ProcessLease(self._engine, f"{self._kind}:{each}", self._settings.lease_ttl_seconds)
        if not lease.take():
            return
        log.info("run started or resumed", kind=self._kind, id=each)
        # A daemon: a process that ends must not wait; the next one continues from the recorded state.
        thread = threading.Thread(
            target=self._run, args=(each, lambda _: lease.renew()), name=f"{self._kind}-{each}", daemon=True
        )
        self._threads[each] = thread
        thread.start()

    @property
    def is_idle(self) -> bool:
        """Return whether none of its threads is at work."""
        return not any(thread.is_alive() for thread in self._threads.values())
