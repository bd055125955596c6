"""Renewal of the leases of one process's tasks, in a separate thread.

Renewals wait for nothing else that a process does: not for reading plans, writing counts, stopping tasks, nor for
Celery to deliver the next hint. Only the machine can still make them late, and then leases become longer
(`backend/domain/distribution/lease_length.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.distribution.lease_length import LeaseLength
from backend.settings import Settings
from workers.leases import fencings, leases

log = structlog.get_logger("leases")


class LeaseKeeper:
    """The leases of one process; `hold` and `drop` define which ones are renewed. Thread-safe."""

    def __init__(self, engine: Engine, settings: Settings, holder: str, pause: Callable[[float], None]) -> None:
        """Create the keeper; `pause` waits the given seconds between two renewals."""
        self._engine, self._holder, self._pause = engine, holder, pause
        self._every_seconds = settings.lease_renew_seconds
        self._length = LeaseLength(settings.lease_ttl_seconds, settings.lease_longest_seconds)
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._unrecorded: list[fencings.Fenced] = []
        self._renewed_at: datetime | None = None
        self._last_renewal = time.monotonic()
        self._is_needed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Renew until `rest` was called and nothing is held any more."""
        with self._lock:
            self._is_needed = True
            if self._thread is None or not self._thread.is_alive():
                self._renewed_at, self._last_renewal = None, time.monotonic()
                self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self._thread.start()

    def rest(self) -> None:
        """End the session: renew only as long as something is held."""
        self._is_needed = False

    @property
    def is_running(self) -> bool:
        """Return whether the thread runs."""
        return self._thread is not None

    def hold(self, unit: str, epoch: int) -> None:
        """Renew a lease that was taken under this epoch."""
        with self._lock:
            self._held[unit] = epoch
            self._lost.pop(unit, None)

    def drop(self, unit: str) -> None:
        """Stop renewing a lease, because it is released or lost."""
        with self._lock:
            self._held.pop(unit, None)
            self._lost.pop(unit, None)

    def is_lost(self, unit: str, epoch: int) -> bool:
        """Return whether another process has taken the lease since."""
        return self._lost.get(unit) == epoch

    @property
    def seconds(self) -> float:
        """Return the duration of leases that are taken now."""
        return self._length.seconds(self._waited_seconds)

    @property
    def grace_seconds(self) -> float:
        """Return the seconds for which an expired lease is left to its holder."""
        return self._length.grace_seconds(self._waited_seconds)

    @property
    def is_late(self) -> bool:
        """Return whether this process renews its leases late."""
        return self._length.is_late(self._waited_seconds)

    @property
    def _waited_seconds(self) -> float:
        return time.monotonic() - self._last_renewal

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._is_needed and not self._held:
                    self._thread = None
                    return
            try:
                self.renew()
                self._record()
            except DomainError as error:
                log.warning("leases not renewed; tasks continue", reason=error.detail)
            except Exception:
                # Without this thread every lease of the process would expire.
                log.exception("leases not renewed; tasks continue")
            self._pause(self._every_seconds)

    def renew(self) -> None:
        """Renew all held leases once, and note lost ones. Raises DomainError."""
        with self._lock:
            held = dict(self._held)
        with self._engine.begin() as connection:
            now = leases.clock(connection)
            if self._renewed_at is not None:
                self._length.renewed((now - self._renewed_at).total_seconds())
            seconds = self._length.seconds()
            mine = leases.renew(connection, self._holder, held, seconds)
            self._unrecorded += fencings.count(connection, self._note_lost(held, mine))
            leases.report_seen(connection, self._holder, seconds)
        self._renewed_at, self._last_renewal = now, time.monotonic()

    def _note_lost(self, held: Mapping[str, int], mine: Collection[str]) -> dict[str, int]:
        """Return the leases that another process has taken, except those released during the renewal."""
        with self._lock:
            lost = {u: epoch for u, epoch in held.items() if u not in mine and self._held.get(u) == epoch}
            for unit in lost:
                del self._held[unit]
            self._lost |= lost
        return lost

    def _record(self) -> None:
        if self._unrecorded:
            fencings.record(self._holder, self._unrecorded)
            self._unrecorded = []
