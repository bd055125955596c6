"""Webhooks whose newest deliveries failed."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.overview.estate_facts import WebhookFact
from backend.projections.temporal import as_of
from backend.projections.webhooks import webhooks
from backend.queries.webhooks.webhook_deliveries import DELIVERED, FAILED, webhook_deliveries


def failing_webhooks(connection: Connection) -> list[WebhookFact]:
    """Return enabled webhooks with deliveries that failed after the last one that succeeded, by name."""
    d, w = webhook_deliveries.c, webhooks.c
    # Each webhook by itself, by the index on results: deliveries of a month may be many.
    its = sa.and_(d.webhook == w.name, d.created == w.created, d.ended_at.is_not(None))
    delivered_at = sa.select(sa.func.max(d.ended_at)).where(its, d.state == DELIVERED).scalar_subquery()
    since_then = d.ended_at > sa.func.coalesce(delivered_at.correlate(webhooks), sa.text("'-infinity'"))
    failed = (
        sa.select(sa.func.count().label("failed"), sa.func.min(d.ended_at).label("since"))
        .where(its, d.state == FAILED, since_then)
        .correlate(webhooks)
        .lateral("failed")
    )
    query = (
        sa.select(w.name, failed.c.failed, failed.c.since)
        .select_from(webhooks.join(failed, sa.true()))
        .where(as_of(webhooks, None), w.enabled, failed.c.failed > 0)
        .order_by(w.name)
    )
    return [WebhookFact(name=row.name, failed=row.failed, since=row.since) for row in connection.execute(query)]
