"""`/webhooks`: receivers of switches, gaps and dead letters, and the deliveries to them (docs/operations.md)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import needs
from backend.api.frame.requests import (
    At,
    Body,
    Paging,
    Reading,
    SharedServices,
    Writing,
    etag,
    listed,
    plausible_names,
    shown_at,
)
from backend.changes import webhooks as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.webhooks.addresses import LONGEST_URL
from backend.domain.webhooks.webhook import EventKind
from backend.queries.webhooks import webhook_deliveries, webhooks
from backend.queries.webhooks.webhook_deliveries import DeliveryRow
from backend.queries.webhooks.webhook_secrets import new_secret
from backend.queries.webhooks.webhooks import WebhookRow, find_webhook

router = APIRouter(prefix="/webhooks", tags=["webhooks"], dependencies=[Depends(plausible_names)])

ONE = "/{webhook}"
_MOST = 2**63 - 1
_KINDS = " | ".join(EventKind)
_URL_HINT = "http or https; visible to all viewers of the estate."
_URL: Any = Field(max_length=LONGEST_URL, description=_URL_HINT)
_NEW_URL: Any = Field(None, max_length=LONGEST_URL, description=_URL_HINT)
_EVENTS: Any = Field(max_length=20, description=f"Kinds of events: {_KINDS}.")
_NEW_EVENTS: Any = Field(None, max_length=20, description=f"Replaces all kinds of events: {_KINDS}.")


class NewWebhook(Body):
    """A webhook to create."""

    name: str
    url: str = _URL
    events: list[str] = _EVENTS
    enabled: bool = True


class WebhookChanges(Body):
    """Changes of a webhook; fields left out, or null, stay."""

    url: str | None = _NEW_URL
    events: list[str] | None = _NEW_EVENTS
    enabled: bool | None = None


@router.get("", openapi_extra=needs(Action.READ_ESTATE))
def list_webhooks(connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List all webhooks, by name."""
    return listed(webhooks.list_webhooks(connection, at), page, lambda row: row.name, shown)


@router.post("", status_code=201, openapi_extra=needs(Action.MANAGE_WEBHOOKS))
def create_webhook(body: NewWebhook, write: Writing, services: SharedServices) -> Response:
    """Create a webhook, which gets events from now on.

    `secret`, which signs deliveries, is in this response only; a repeat by Idempotency-Key has null there.
    """
    secret = new_secret()

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_webhook(connection, body.name)
        headers = {"Location": f"/api/v1/webhooks/{row.name}", "ETag": etag(row.version)}
        return Answer(201, {**shown(row), "secret": None}, headers, {} if write.dry_run else {"secret": secret})

    change = changes.create_webhook(
        body.name, body.url, body.events, enabled=body.enabled, secret=secret, config=services.config
    )
    return write.carry_out(change, answer)


@router.get(ONE, openapi_extra=needs(Action.READ_ESTATE))
def get_webhook(webhook: str, connection: Reading, at: At) -> Response:
    """Show one webhook."""
    row = find_webhook(connection, webhook, at)
    return shown_at(row.version, shown(row))


@router.patch(ONE, openapi_extra=needs(Action.MANAGE_WEBHOOKS))
def change_webhook(webhook: str, body: WebhookChanges, write: Writing, services: SharedServices) -> Response:
    """Change URL or kinds of events, disable or enable the webhook.

    Events that happen while it is disabled are not sent; pending deliveries resume when it is enabled again.
    """

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_webhook(connection, webhook)
        return Answer(200, shown(row), {"ETag": etag(row.version)})

    change = changes.change_webhook(webhook, **body.model_dump(), config=services.config, match=write.match)
    return write.carry_out(change, answer)


@router.delete(ONE, status_code=204, openapi_extra=needs(Action.MANAGE_WEBHOOKS))
def delete_webhook(webhook: str, write: Writing) -> Response:
    """Delete a webhook; nothing more is sent to it, including pending deliveries."""
    return write.carry_out(changes.delete_webhook(webhook, write.match), lambda connection, _: Answer(204, None))


@router.post(ONE + "/secret", status_code=201, openapi_extra=needs(Action.MANAGE_WEBHOOKS))
def rotate_secret(webhook: str, write: Writing, services: SharedServices) -> Response:
    """Sign with a new secret, from the next attempt on.

    It is in this response only; a repeat by Idempotency-Key has null there.
    """
    secret = new_secret()

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_webhook(connection, webhook)
        headers = {"ETag": etag(row.version)}
        return Answer(201, {**shown(row), "secret": None}, headers, {} if write.dry_run else {"secret": secret})

    return write.carry_out(changes.rotate_secret(webhook, secret, services.config, write.match), answer)


@router.post(ONE + "/test", status_code=202, openapi_extra=needs(Action.MANAGE_WEBHOOKS))
def test_webhook(webhook: str, write: Writing) -> Response:
    """Send an event of kind `test`; `position` names its delivery."""

    def answer(_: Connection, outcome: Outcome) -> Answer:
        return Answer(202, {"webhook": webhook, "position": outcome.events[-1].position})

    return write.carry_out(changes.send_test(webhook), answer)


@router.get(ONE + "/deliveries", openapi_extra=needs(Action.READ_ESTATE))
def list_deliveries(
    webhook: str,
    connection: Reading,
    page: Paging,
    position: Annotated[
        int | None, Query(ge=1, le=_MOST, description="Only the delivery of the event at this position.")
    ] = None,
) -> dict[str, Any]:
    """List deliveries, the newest event first; they are kept for 30 days from their end."""
    find_webhook(connection, webhook)
    before = -page.after if isinstance(page.after, int) else None
    rows = webhook_deliveries.list_deliveries(
        connection, webhook, before=before, at=position, limit=page.limit + 1
    )
    return listed(rows, page, lambda row: -row.position, shown_delivery)


@router.post(ONE + "/deliveries/{position}/retry", status_code=202, openapi_extra=needs(Action.MANAGE_WEBHOOKS))
def retry_delivery(webhook: str, position: int, write: Writing) -> Response:
    """Send an event again, at once, whatever the result before."""
    body = {"webhook": webhook, "position": position}
    return write.carry_out(changes.retry_delivery(webhook, position), lambda connection, _: Answer(202, body))


def shown(row: WebhookRow) -> dict[str, Any]:
    """Return a webhook as responses show it, without its secret."""
    return {
        "name": row.name,
        "url": row.url,
        "events": list(row.events),
        "enabled": row.enabled,
        "secret_since": row.secret_since.isoformat(),
    }


def shown_delivery(row: DeliveryRow) -> dict[str, Any]:
    """Return a delivery as responses show it."""
    is_pending = row.state == webhook_deliveries.PENDING
    return {
        "position": row.position,
        "kind": row.kind,
        "state": row.state,
        "attempts": row.attempts,
        "queued_at": row.queued_at.isoformat(),
        "next_attempt_at": row.due_at.isoformat() if is_pending else None,
        "tried_at": row.tried_at and row.tried_at.isoformat(),
        "ended_at": row.ended_at and row.ended_at.isoformat(),
        "status": row.status,
        "problem": row.problem,
    }
