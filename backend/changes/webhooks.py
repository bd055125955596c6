"""Changes of webhooks, and what goes with them: secrets, and pending deliveries."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pydantic import SecretStr
from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.deciders import WEBHOOK
from backend.dispatch import Outcome
from backend.domain.webhooks.addresses import parse_networks
from backend.domain.webhooks.webhook import (
    ChangeWebhook,
    CreateWebhook,
    DeleteWebhook,
    RetryDelivery,
    RotateSecret,
    SendTest,
    Webhook,
    WebhookCommand,
    event_stream,
)
from backend.queries.webhooks import webhook_deliveries
from backend.queries.webhooks.webhook_secrets import forget_secret, keep_secret
from backend.queries.webhooks.webhooks import count_webhooks, find_webhook
from backend.settings import Settings

WebhookChange = Change[Webhook | None, WebhookCommand]


def create_webhook(
    webhook: str, url: str, events: Collection[str], *, enabled: bool, secret: str, config: Settings
) -> WebhookChange:
    """Create a webhook that gets events from now on; `secret` signs deliveries and cannot be shown again."""

    def build(connection: Connection) -> CreateWebhook:
        return CreateWebhook(
            webhook=webhook,
            url=url,
            events=events,
            enabled=enabled,
            webhooks=count_webhooks(connection),
            allowed=parse_networks(config.webhook_allowed_networks),
        )

    return Change(WEBHOOK, event_stream(webhook), build, _keeping(webhook, secret, config.secrets_key))


def change_webhook(
    webhook: str,
    *,
    url: str | None,
    events: Collection[str] | None,
    enabled: bool | None,
    config: Settings,
    match: Match = any_version,
) -> WebhookChange:
    """Change a webhook; None keeps a value."""

    def build(connection: Connection) -> ChangeWebhook:
        match(find_webhook(connection, webhook).version)
        return ChangeWebhook(
            url=url, events=events, enabled=enabled, allowed=parse_networks(config.webhook_allowed_networks)
        )

    return Change(WEBHOOK, event_stream(webhook), build)


def rotate_secret(webhook: str, secret: str, config: Settings, match: Match = any_version) -> WebhookChange:
    """Replace the secret that signs deliveries from now on."""

    def build(connection: Connection) -> RotateSecret:
        match(find_webhook(connection, webhook).version)
        return RotateSecret()

    return Change(WEBHOOK, event_stream(webhook), build, _keeping(webhook, secret, config.secrets_key))


def send_test(webhook: str) -> WebhookChange:
    """Send a test event to a webhook."""

    def build(connection: Connection) -> SendTest:
        find_webhook(connection, webhook)
        return SendTest()

    return Change(WEBHOOK, event_stream(webhook), build)


def retry_delivery(webhook: str, position: int) -> WebhookChange:
    """Retry the delivery of the event at a position, immediately."""

    def build(connection: Connection) -> RetryDelivery:
        find_webhook(connection, webhook)
        known = webhook_deliveries.is_known(connection, webhook, position)
        return RetryDelivery(delivery=position, known=known)

    def also(connection: Connection, _: Outcome) -> None:
        webhook_deliveries.send_again(connection, webhook, position)

    return Change(WEBHOOK, event_stream(webhook), build, also)


def delete_webhook(webhook: str, match: Match = any_version) -> WebhookChange:
    """Delete a webhook, with its pending deliveries."""

    def build(connection: Connection) -> DeleteWebhook:
        match(find_webhook(connection, webhook).version)
        return DeleteWebhook()

    def also(connection: Connection, _: Outcome) -> None:
        forget_secret(connection, webhook)
        webhook_deliveries.forget(connection, webhook)

    return Change(WEBHOOK, event_stream(webhook), build, also)


def _keeping(webhook: str, secret: str, key: SecretStr | None) -> Callable[[Connection, Outcome], None]:
    def also(connection: Connection, _: Outcome) -> None:
        keep_secret(connection, webhook, secret, key)

    return also
