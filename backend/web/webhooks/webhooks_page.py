"""`/webhooks`: the webhooks with their receivers and events, and one webhook with its deliveries, live."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller
from backend.queries.base.events import events_at
from backend.queries.webhooks.webhook_deliveries import FAILED, PENDING, DeliveryRow, count_states, list_deliveries
from backend.queries.webhooks.webhooks import WebhookRow, find_webhook, list_webhooks
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, offer, reasons
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.frame.timeline_view import timeline_items
from backend.web.tables.table_query import TableParameters, TableQuery
from backend.web.tables.table_view import TableView
from backend.web.webhooks.webhook_tables import (
    DELIVERIES_TABLE,
    WEBHOOKS_NOW_ONLY,
    WEBHOOKS_TABLE,
    DeliveryView,
    WebhookView,
    delivery_view,
)
from backend.web.words.figures import NOTHING

router = APIRouter(include_in_schema=False, route_class=PageRoute)

WEBHOOKS = ("Webhooks", "/webhooks")
WEBHOOK = "/webhooks/{webhook}"
TEMPLATE = "webhook.html"
_MOST_READ = 500
Seen = Annotated[str, Query(max_length=40)]
"""Digest of the deliveries that the live part shows."""
KIND_TEXTS = {
    "switch": "switches",
    "gap": "gaps: records lost, logs cut off",
    "quarantine": "dead letters: records dead-lettered and replayed",
}
"""Kinds of events -> their description."""


def address_of(webhook: str) -> str:
    """Return the address of a webhook's page."""
    return WEBHOOK.format(webhook=webhook)


def events_listed(events: tuple[str, ...]) -> str:
    """Return the kinds of events in words, in the order of the forms."""
    return ", ".join(kind for kind in KIND_TEXTS if kind in events) or NOTHING


def _view(connection: Connection, row: WebhookRow, states: dict[str, int]) -> WebhookView:
    last = next((delivery_view(each) for each in list_deliveries(connection, row.name, limit=1)), None)
    return WebhookView(row, events_listed(row.events), last, states[PENDING], states[FAILED])


@router.get("/webhooks")
def webhooks_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show every webhook, now or at an earlier position; deliveries are present ones only."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        states = count_states(connection)
        views = [_view(connection, row, states[row.name]) for row in list_webhooks(connection, position)]
    table = WEBHOOKS_TABLE if past is None else WEBHOOKS_TABLE.without(*WEBHOOKS_NOW_ONLY)
    offers = [offer(caller, Action.MANAGE_WEBHOOKS, None, "Create webhook", "/webhooks/-new")]
    context = {
        "past": past,
        "table": table.view(views, query),
        "offers": offers,
        "reasons": reasons(offers),
        "kinds": KIND_TEXTS.items(),
    }
    return templates.page("webhooks.html", {**frame(request, caller), **context})


@router.get(WEBHOOK)
def webhook_page(
    webhook: str, request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show one webhook and its deliveries; without these at an earlier position."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        context = webhook_context(connection, caller, webhook, query, at)
    return templates.page(TEMPLATE, {**frame(request, caller), **context})


@router.get(WEBHOOK + "/-live")
def webhook_live(
    webhook: str, request: Request, services: Shared, viewer: Viewer, query: TableParameters, seen: Seen = ""
) -> Response:
    """Return the page's live part; 204 while no delivery has changed."""
    caller = enter(viewer, Action.READ_ESTATE)
    with services.reading() as connection:
        find_webhook(connection, webhook)
        if seen and seen == _state(list_deliveries(connection, webhook, limit=_MOST_READ)):
            return Response(status_code=204)
        context = webhook_context(connection, caller, webhook, query)
    return HTMLResponse(templates.block(TEMPLATE, "deliveries", {**frame(request, caller), **context}))


def webhook_context(
    connection: Connection, viewer: Caller, webhook: str, query: TableQuery, at: str | None = None
) -> dict[str, Any]:
    """Return what a webhook's page shows. Raises NotFound."""
    position, past = requested_position(connection, viewer, at)
    row = find_webhook(connection, webhook, position)
    here = address_of(webhook)
    deliveries = [] if past is not None else list_deliveries(connection, webhook, limit=_MOST_READ)
    ways = (("Send test", "test"), ("Change", "change"), ("Rotate secret", "secret"), ("Delete", "delete"))
    view = _deliveries(connection, deliveries, query.from_the_first("seen").of(here))
    offers = [
        offer(viewer, Action.MANAGE_WEBHOOKS, None, label, f"{here}/-{way}")
        for label, way in ways
        if row.enabled or way != "test"
    ]
    return {
        "past": past,
        "webhook": row,
        "events_listed": events_listed(row.events),
        "deliveries": view,
        "live": f"{here}/-live{view.live}{'&' if view.live else '?'}seen={_state(deliveries)}",
        "most": _MOST_READ,
        "offers": offers,
        "reasons": reasons(offers),
        "manages": not reasons(offers),
        "here": here,
        "trail": [WEBHOOKS],
        "secret": "",
    }


def _deliveries(connection: Connection, rows: Sequence[DeliveryRow], query: TableQuery) -> TableView[DeliveryView]:
    """Return the table of deliveries. A filter searches the sentences of all, else those shown are enough."""
    if query.value(DELIVERIES_TABLE.parameter("filter")):
        return DELIVERIES_TABLE.view(_with_sentences(connection, rows), query)
    view = DELIVERIES_TABLE.view([delivery_view(each) for each in rows], query)
    return replace(view, rows=_with_sentences(connection, [each.row for each in view.rows]))


def _state(rows: Sequence[DeliveryRow]) -> str:
    """Return a digest of the deliveries: the page's live part is drawn again when it differs."""
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def _with_sentences(connection: Connection, rows: Sequence[DeliveryRow]) -> list[DeliveryView]:
    sent = events_at(connection, [each.position for each in rows])
    sentences = {each.position: each.sentence for each in timeline_items(connection, sent)}
    return [delivery_view(each, sentences.get(each.position, "")) for each in rows]
