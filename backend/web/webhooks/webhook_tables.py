"""Webhooks and deliveries as rows of tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from backend.queries.webhooks.webhook_deliveries import DELIVERED, FAILED, PENDING, DeliveryRow
from backend.queries.webhooks.webhooks import WebhookRow
from backend.web.tables.table import Column, Table
from backend.web.words.figures import counted

_GLYPHS = {DELIVERED: "running", PENDING: "starting", FAILED: "blocked"}


@dataclass(frozen=True)
class DeliveryView:
    """A delivery in a row of the page."""

    row: DeliveryRow
    glyph: str
    outcome: str
    can_retry: bool
    sentence: str = ""
    """Sentence of the timeline on the event; "" if the event is not known."""

    @property
    def due(self) -> datetime | None:
        """Return when it is tried next; None if it is not."""
        return self.row.due_at if self.row.state == PENDING else None


@dataclass(frozen=True)
class WebhookView:
    """A webhook in a row of the page."""

    row: WebhookRow
    events_listed: str
    last: DeliveryView | None
    waiting: int
    failed: int


def delivery_view(row: DeliveryRow, sentence: str = "") -> DeliveryView:
    """Return a delivery with its outcome in words."""
    attempts = counted(row.attempts, "attempt")
    if row.state == DELIVERED:
        outcome = f"HTTP {row.status}, {attempts}"
    elif row.state == FAILED:
        outcome = f"given up after {attempts}: {row.problem}"
    elif row.problem:
        outcome = f"retrying, {attempts} failed: {row.problem}"
    else:
        outcome = "sending" if row.attempts else "queued"
    return DeliveryView(row, _GLYPHS[row.state], outcome, row.state != DELIVERED, sentence)


WEBHOOKS_NOW_ONLY = ("last", "pending", "failed")
WEBHOOKS_TABLE = Table[WebhookView](
    "webhooks",
    "webhooks",
    (
        Column("name", "Name", lambda each: each.row.name),
        Column("url", "URL", lambda each: each.row.url),
        Column("events", "Events", lambda each: each.events_listed),
        Column("enabled", "Enabled", lambda each: "yes" if each.row.enabled else "no"),
        Column("last", "Last event", lambda each: each.last.row.state if each.last else None),
        Column("pending", "Pending", lambda each: each.waiting, number=True),
        Column("failed", "Failed", lambda each: each.failed, number=True),
    ),
    sort="name",
    within="webhooks-part",
)
DELIVERIES_TABLE = Table[DeliveryView](
    "sent",
    "deliveries",
    (
        Column("event", "Event", lambda each: each.row.position),
        Column("kind", "Kind", lambda each: each.row.kind, lambda each: f"{each.row.kind} {each.sentence}"),
        Column("state", "State", lambda each: each.row.state),
        Column("result", "Result", lambda each: each.outcome),
        Column("tried", "Last attempt", lambda each: each.row.tried_at, time=True),
        Column("due", "Next attempt", lambda each: each.due, time=True),
    ),
    sort="-event",
    within="deliveries",
)
