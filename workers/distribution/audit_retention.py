"""Deletion of login records and of event sources once they are older than the retention.

It does not depend on logins: API clients with tokens leave addresses, too.
"""

from __future__ import annotations

import time

from sqlalchemy import Engine

from backend.queries.access import logins
from backend.settings import Settings

EVERY_SECONDS = 3600.0


class AuditRetention:
    """Deletion in one process; `tick` is called about once a second."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._days = engine, settings.audit_days
        self._due = float("-inf")

    def tick(self) -> None:
        """Delete a batch each time until nothing too old is left, then wait an hour."""
        if time.monotonic() < self._due:
            return
        with self._engine.begin() as connection:
            more = logins.forget(connection, self._days)
        if not more:
            self._due = time.monotonic() + EVERY_SECONDS
