"""Lets go of logins, of where events came from, and of what was observed, when they have been kept long enough.

Whether anybody logs in or not: programs that come with tokens leave addresses, too.
"""

from __future__ import annotations

import time

from sqlalchemy import Engine

from backend.queries import logins, past
from backend.settings import Settings

EVERY_SECONDS = 3600.0


class Forgetting:
    """One process's; `tick` is called about once a second."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._due = float("-inf")

    def tick(self) -> None:
        """A piece each time until nothing too old is left, then again in an hour."""
        if time.monotonic() < self._due:
            return
        kept = self._settings
        with self._engine.begin() as connection:
            more = logins.forget(connection, kept.audit_days)
            more = past.forget(connection, kept.past_hours, kept.past_rows) or more
        if not more:
            self._due = time.monotonic() + EVERY_SECONDS
