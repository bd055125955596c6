"""A lease of something that only one process should run at a time, as one process sees it.

A process remembers the fencing epoch under which it took the lease and renews that epoch only. One that was
stopped while another process had the lease is told so, even if the lease is free again by then: what it knows is
stale.
"""

from __future__ import annotations

import threading

from sqlalchemy import Engine

from workers import leases


class ProcessLease:
    """This process's view of one lease. Threads may share it. All methods raise DomainError."""

    def __init__(self, engine: Engine, unit: str, ttl_seconds: float) -> None:
        self._engine, self._unit, self._ttl_seconds = engine, unit, ttl_seconds
        self._holder = leases.this_process()
        self._lock = threading.Lock()
        self._epoch: int | None = None

    def take(self) -> bool:
        """Take the lease if it is free or this process's already; return whether this process has it."""
        with self._lock, self._engine.begin() as connection:
            self._epoch = leases.renew_or_acquire(connection, self._holder, self._unit, self._ttl_seconds)
            return self._epoch is not None

    def renew(self) -> bool:
        """Prolong the lease; return False for good if another process has had it since it was taken."""
        with self._lock:
            if self._epoch is None:
                return False
            held = {self._unit: self._epoch}
            with self._engine.begin() as connection:
                is_held = bool(leases.renew(connection, self._holder, held, self._ttl_seconds))
            if not is_held:
                self._epoch = None
            return is_held

    def keep(self) -> bool:
        """Renew the lease, or take it if it is not held.

        Returns False once after another process had it meanwhile, so that the caller lets go of what it knows.
        """
        return self.renew() if self._epoch is not None else self.take()
