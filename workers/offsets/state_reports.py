"""Reports of the translator's state: at once when the state changes, otherwise once a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Engine

from backend.queries.offsets import offset_translation
from backend.queries.offsets.offset_translation import State, Waiting

_EVERY_SECONDS = 1.0


class StateReporter:
    """Reporter for one thread. `waiting` returns the commits that wait now."""

    def __init__(self, engine: Engine, waiting: Callable[[], Waiting]) -> None:
        self._engine, self._waiting = engine, waiting
        self._last: State | None = None
        self._reported_at = 0.0

    def __call__(self, state: State) -> None:
        """Report the state. Raises DatabaseUnavailable."""
        if state is self._last and time.monotonic() < self._reported_at + _EVERY_SECONDS:
            return
        with self._engine.begin() as connection:
            offset_translation.write(connection, state, self._waiting())
        self._last, self._reported_at = state, time.monotonic()
