"""Projection of webhooks: their settings at each position. No secrets."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.webhooks.webhook import WebhookChanged, WebhookCreated, WebhookDeleted, WebhookSecretRotated
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, replace, temporal_table

webhooks = temporal_table(
    "webhooks",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("events", JSONB, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    # Position of the event that created it: a webhook with a reused name is another webhook.
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("secret_since", sa.DateTime(timezone=True), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    position, version = recorded.position, recorded.version
    match recorded.event:
        case WebhookCreated() as event:
            values = {
                "url": event.url,
                "events": list(event.events),
                "enabled": event.enabled,
                "created": position,
                "secret_since": recorded.time,
                "version": version,
            }
            replace(rows, webhooks, {"name": event.webhook}, values, position)
        case WebhookChanged() as event:
            changed = {"url": event.url, "events": list(event.events), "enabled": event.enabled}
            change(rows, webhooks, {"name": event.webhook}, {**changed, "version": version}, position)
        case WebhookSecretRotated() as event:
            rotated = {"secret_since": recorded.time, "version": version}
            change(rows, webhooks, {"name": event.webhook}, rotated, position)
        case WebhookDeleted() as event:
            replace(rows, webhooks, {"name": event.webhook}, None, position)


PROJECTION = Projection(
    name="webhooks",
    events=frozenset({WebhookCreated, WebhookChanged, WebhookSecretRotated, WebhookDeleted}),
    tables=(webhooks,),
    apply=_apply,
)
