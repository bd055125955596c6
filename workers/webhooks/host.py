"""Queues events for webhooks, and keeps a thread at work for each webhook with due deliveries.

Each thread holds a lease: a receiver that hangs delays only its own deliveries. The queue and the times of retries
are in the database; a process that dies loses nothing.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, Engine

from backend.queries.webhooks import webhook_deliveries
from backend.settings import Settings
from workers.run_host import RunHost
from workers.webhooks.sending import Sender

_FORGET_EVERY_SECONDS = 3600.0


class WebhookHost:
    """One process's state; `tick` is called about once a second."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._forget_due = float("-inf")
        sender = Sender(engine, settings)
        self._runs = RunHost(engine, settings, "webhook", self._find, sender.run)

    def tick(self) -> None:
        """Queue new events, and begin to send what is due. Raises DomainError."""
        with self._engine.begin() as connection:
            webhook_deliveries.queue(connection)
            if time.monotonic() >= self._forget_due:
                webhook_deliveries.forget_old(connection)
                self._forget_due = time.monotonic() + _FORGET_EVERY_SECONDS
        self._runs.tick()

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is being sent."""
        return self._runs.is_idle

    @staticmethod
    def _find(connection: Connection) -> list[str]:
        return webhook_deliveries.webhooks_due(connection)
