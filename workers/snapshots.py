"""History of observations: takes a snapshot each minute, for pages of earlier positions, and deletes old ones.

A snapshot stores what has changed since the previous one, from the database alone. Its duration grows with the
number of offsets, and so does the pause after it: it takes a fiftieth of a CPU at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.queries.history import snapshots
from backend.settings import Settings
from workers.one_thread import OneThread

log = structlog.get_logger("past")

PAUSES = 50
"""Minimum interval between the starts of two snapshots, as a multiple of a snapshot's duration."""


class SnapshotKeeper:
    """History of observations in one process; `tick` is called about once a second and never waits."""

    def __init__(self, engine: Engine, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._settings, self._clock = engine, settings, clock
        self._thread = OneThread("past")
        self._due = float("-inf")

    def tick(self) -> None:
        """Start a snapshot in a thread, unless one is in progress or was just taken."""
        if self._clock() >= self._due:
            self._thread.begin(self._run)

    @property
    def is_running(self) -> bool:
        """Return whether a snapshot is in progress."""
        return self._thread.is_working

    def _run(self) -> None:
        began = self._clock()
        pauses = 2
        try:
            snapshots.take_snapshot(self._engine)
            snapshots.forget(self._engine, self._settings.past_hours, self._settings.past_rows)
            pauses = PAUSES
        except DomainError as error:
            log.warning("observations not stored in the history", reason=error.detail)
        except Exception:
            log.exception("observations not stored in the history")
        finally:
            # A failed snapshot may have waited for the database most of the time; still it must not repeat at
            # once.
            took = self._clock() - began
            self._due = began + max(self._settings.past_every_seconds, pauses * took)
