"""Lease of something that only one process should run at a time, as seen by one process.

A process remembers the fencing epoch under which it took the lease and renews only that epoch. A process that was
stopped while another one had the lease is notified, even if the lease is free again by then: its knowledge is
stale.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from workers.leases import leases

_LONGEST_STEP_SECONDS = 180.0
"""Starting Spark and its largest batch take far less. A longer step hangs, and its lease may expire, so that
another process takes over."""


class ProcessLease:
    """View of one process on one lease. Thread-safe. All methods raise DomainError."""

    def __init__(self, engine: Engine, unit: str, ttl_seconds: float) -> None:
        self._engine, self._unit, self._ttl_seconds = engine, unit, ttl_seconds
        self._holder = leases.this_process()
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._was_lost = False
        self._kept_at = time.monotonic()

    def take(self) -> bool:
        """Take the lease if it is free or this process's already; return whether this process has it."""
        with self._lock, self._engine.begin() as connection:
            self._epoch = leases.renew_or_acquire(connection, self._holder, self._unit, self._ttl_seconds)
            return self._epoch is not None

    def renew(self) -> bool:
        """Extend the lease; return False for good if another process has had it since it was taken."""
        with self._lock:
            if self._epoch is None:
                return False
            held = {self._unit: self._epoch}
            with self._engine.begin() as connection:
                is_held = bool(leases.renew(connection, self._holder, held, self._ttl_seconds))
            if not is_held:
                self._epoch, self._was_lost = None, True
            return is_held

    def keep(self) -> bool:
        """Renew the lease, or take it if it is not held.

        Returns False once after another process had it in the meantime, so that the caller drops its state.
        """
        self._kept_at = time.monotonic()
        if self._epoch is not None and self.renew():
            return True
        if self._was_lost:
            self._was_lost = False
            return False
        return self.take()

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the lease from a thread while the caller is between two calls of `keep`.

        A step may take longer than the lease lasts, as starting Spark does; without this the lease would become
        free although its holder is at work.
        """
        ended = threading.Event()
        renewer = threading.Thread(
            target=self._renew_until, args=(ended,), name=f"renews {self._unit}", daemon=True
        )
        renewer.start()
        try:
            yield
        finally:
            ended.set()
            renewer.join()

    def _renew_until(self, ended: threading.Event) -> None:
        while not ended.wait(self._ttl_seconds / 3):
            if self._epoch is None or time.monotonic() - self._kept_at > _LONGEST_STEP_SECONDS:
                continue
            # While the database is unavailable no other process can take the lease either.
            with suppress(DomainError):
                self.renew()
