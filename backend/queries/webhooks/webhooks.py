"""Read webhooks, now or as of a position."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from backend.domain.base.errors import NotFound
from backend.projections.temporal import as_of
from backend.projections.webhooks import webhooks


@dataclass(frozen=True)
class WebhookRow:
    """A webhook. `created`: position of the event that created it; `version`: that of its last event."""

    name: str
    url: str
    events: tuple[str, ...]
    enabled: bool
    created: int
    secret_since: datetime
    version: int


def list_webhooks(connection: Connection, at: int | None = None) -> list[WebhookRow]:
    """Return all webhooks, by name; they are few."""
    return _webhooks(connection, at, sa.true())


def find_webhook(connection: Connection, webhook: str, at: int | None = None) -> WebhookRow:
    """Return the webhook, or raise NotFound."""
    for row in _webhooks(connection, at, webhooks.c.name == webhook):
        return row
    raise NotFound(f"there is no webhook {webhook[:60]!r}; GET /webhooks lists them")


def count_webhooks(connection: Connection) -> int:
    """Count the webhooks."""
    query = sa.select(sa.func.count()).select_from(webhooks).where(as_of(webhooks, None))
    return int(connection.execute(query).scalar_one())


def _webhooks(connection: Connection, at: int | None, wanted: ColumnElement[bool]) -> list[WebhookRow]:
    w = webhooks.c
    query = sa.select(w.name, w.url, w.events, w.enabled, w.created, w.secret_since, w.version)
    rows = connection.execute(query.where(as_of(webhooks, at), wanted).order_by(w.name))
    return [WebhookRow(row.name, row.url, tuple(row.events), *row[3:]) for row in rows]
