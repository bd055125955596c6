"""Looks each minute at what is observed, so that pages of an earlier position can show it; old looks go.

A look writes down what is otherwise than at the look before, in the database alone. How long it takes grows with
how many offsets there are, and so does the pause after it: a fiftieth of a processor's time at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.queries.history import past
from backend.settings import Settings
from workers.one_thread import OneThread

log = structlog.get_logger("past")

PAUSES = 50
"""Times that a look takes, which is the least that lies between the beginnings of two."""


class PastKeeper:
    """One process's; `tick` is called about once a second and waits for no look."""

    def __init__(self, engine: Engine, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._settings, self._clock = engine, settings, clock
        self._thread = OneThread("past")
        self._due = float("-inf")

    def tick(self) -> None:
        """Begin a look in a thread, unless one is under way or the last was just now."""
        if self._clock() >= self._due:
            self._thread.begin(self._run)

    @property
    def is_looking(self) -> bool:
        """Whether a look is under way."""
        return self._thread.is_working

    def _run(self) -> None:
        began = self._clock()
        pauses = 2
        try:
            past.take(self._engine)
            past.forget(self._engine, self._settings.past_hours, self._settings.past_rows)
            pauses = PAUSES
        except DomainError as error:
            log.warning("what is observed is not kept", reason=error.detail)
        except Exception:
            log.exception("what is observed is not kept")
        finally:
            # One that fails may have waited for the database most of the time; yet it must not go on for ever.
            took = self._clock() - began
            self._due = began + max(self._settings.past_every_seconds, pauses * took)
