"""Sends a webhook's due deliveries, one event after the other in the order of the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.webhooks.addresses import parse_networks
from backend.eventlog.recorded import StoredEvent
from backend.queries.access import sealing
from backend.queries.base import events
from backend.queries.webhooks import webhook_deliveries, webhook_secrets
from backend.queries.webhooks.webhook_deliveries import Begun
from backend.settings import Settings
from workers.run_host import IsMine
from workers.webhooks import message
from workers.webhooks.posting import DeliveryFailed, post

log = structlog.get_logger("webhooks")

LONGEST_DELAY_SECONDS = 3600.0


def delay_after(attempt: int, settings: Settings) -> float | None:
    """Return the seconds between this attempt (1 for the first) and the next one; None after the last."""
    if attempt >= settings.webhook_attempts:
        return None
    first: float = settings.webhook_retry_seconds
    return min(LONGEST_DELAY_SECONDS, first * 2.0 ** min(attempt - 1, 30))


class Sender:
    """Sends deliveries; threads may share one."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings

    def run(self, webhook: str, is_mine: IsMine) -> None:
        """Send due deliveries, until there are no more or another process has the lease."""
        try:
            with self._kept(webhook, is_mine):
                while is_mine(webhook) and self._send_one(webhook):
                    pass
        except DomainError as error:
            # A delivery that was begun is due again later, and the next tick continues.
            log.warning("webhook deliveries postponed", webhook=webhook, reason=error.detail)

    @contextmanager
    def _kept(self, webhook: str, is_mine: IsMine) -> Iterator[None]:
        # An attempt may outlast a lease, and another process would then send the next events out of order.
        over = threading.Event()

        def renew() -> None:
            while not over.wait(self._settings.lease_ttl_seconds / 3):
                try:
                    is_mine(webhook)
                except DomainError as error:
                    log.warning("lease not renewed", webhook=webhook, reason=error.detail)

        thread = threading.Thread(target=renew, name=f"webhook-lease-{webhook}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _send_one(self, webhook: str) -> bool:
        # Longer than the longest attempt and the write after it.
        again_seconds = 3 * self._settings.webhook_timeout_seconds
        with self._engine.begin() as connection:
            begun = webhook_deliveries.begin(connection, webhook, again_seconds)
            if begun is None:
                return False
            event = events.event_at(connection, begun.position)
            keys = sealing.keys_of(self._settings.secrets_key)
            secret = webhook_secrets.secret_of(connection, webhook, keys)
        bound_log = log.bind(webhook=webhook, position=begun.position, attempt=begun.attempt)
        try:
            status = self._post(begun, event, secret)
        except DeliveryFailed as error:
            delay = delay_after(begun.attempt, self._settings)
            bound_log.warning(
                "webhook delivery failed", status=error.status, reason=error.problem, again_seconds=delay
            )
            with self._engine.begin() as connection:
                webhook_deliveries.failed_once(connection, begun, error.status, error.problem, delay)
        else:
            bound_log.info("webhook delivered", status=status)
            with self._engine.begin() as connection:
                webhook_deliveries.delivered(connection, begun, status)
        return True

    def _post(self, begun: Begun, event: StoredEvent | None, secret: str | None) -> int:
        if event is None:
            raise DeliveryFailed("the event is no longer in the event log")
        if secret is None:
            raise DeliveryFailed("its secret cannot be decrypted with the present TREELINE_SECRETS_KEY: rotate it")
        body = message.body_of(event, begun.webhook, begun.kind)
        now, event_id = int(time.time()), message.event_id(begun.position)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Treeline",
            message.SIGNATURE: message.signature(secret, now, body),
            **message.standard_headers(secret, event_id, now, body),
            message.EVENT: event_id,
            message.KIND: begun.kind,
            message.ATTEMPT: str(begun.attempt),
        }
        return post(
            begun.url,
            headers,
            body,
            allowed=parse_networks(self._settings.webhook_allowed_networks),
            timeout_seconds=self._settings.webhook_timeout_seconds,
        )
