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
    its = sa.and_(w.name == d.webhook, w.created == d.created, as_of(webhooks, None), w.enabled)
    ended = (
        sa.select(
            d.webhook,
            d.state,
            d.ended_at,
            sa.func.max(d.ended_at)
            .filter(d.state == DELIVERED)
            .over(partition_by=d.webhook)
            .label("delivered_at"),
        )
        .join(webhooks, its)
        .where(d.ended_at.is_not(None))
        .subquery("ended")
    )
    of = ended.c
    query = (
        sa.select(of.webhook, sa.func.count().label("failed"), sa.func.min(of.ended_at).label("since"))
        .where(of.state == FAILED, sa.or_(of.delivered_at.is_(None), of.ended_at > of.delivered_at))
        .group_by(of.webhook)
        .order_by(of.webhook)
    )
    return [WebhookFact(name=row.webhook, failed=row.failed, since=row.since) for row in connection.execute(query)]
