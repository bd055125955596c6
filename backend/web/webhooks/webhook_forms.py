"""Forms that create, change, test and delete webhooks, rotate their secrets, and send an event again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import webhooks as changes
from backend.changes.webhooks import WebhookChange
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.queries.webhooks.webhook_deliveries import list_deliveries
from backend.queries.webhooks.webhook_secrets import new_secret
from backend.queries.webhooks.webhooks import WebhookRow, find_webhook
from backend.settings import Settings
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl, file_of
from backend.web.forms.shown_once import ShownOnce
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.tables.table_query import table_query
from backend.web.webhooks.webhooks_page import (
    KIND_TEXTS,
    TEMPLATE,
    WEBHOOK,
    WEBHOOKS,
    address_of,
    events_listed,
    webhook_context,
)

router = APIRouter(include_in_schema=False, route_class=PageRoute)

API = "/api/v1/webhooks"
YES, NO = "yes", "no"
_ONCE = "Its secret is shown once, on the next page."


def _with_secret(
    change: Callable[[Fields, str], WebhookChange],
    effect: Callable[[Connection, Outcome, Fields], Effect],
    webhook: Callable[[Fields], str],
) -> ShownOnce:
    def page(change_request: ChangeRequest, given: Fields, secret: str) -> Response:
        with change_request.services.reading() as connection:
            context = webhook_context(
                connection, change_request.viewer, webhook(given), table_query(change_request.request)
            )
        return templates.page(
            TEMPLATE, {**frame(change_request.request, change_request.viewer), **context, "secret": secret}
        )

    return ShownOnce(
        new=new_secret,
        change=change,
        effect=effect,
        page=page,
        place=lambda given: address_of(webhook(given)),
    )


def _events(given: Fields) -> list[str]:
    return [kind for kind in KIND_TEXTS if given.get(kind) == YES]


def _shown(row: WebhookRow) -> dict[str, str]:
    return {"URL": row.url, "Events": events_listed(row.events), "Enabled": YES if row.enabled else NO}


def _same(row: WebhookRow, call: str) -> SameChange:
    content = {"url": row.url, "events": list(row.events), "enabled": row.enabled}
    return file_of("webhooks", row.name, content, call)


def _choices() -> Mapping[str, Any]:
    return {"kinds": list(KIND_TEXTS.items()), "answers": [(YES, YES), (NO, NO)]}


def _create_form(config: Settings) -> FormPage:
    def change(given: Fields, secret: str) -> WebhookChange:
        enabled = given.get("enabled") != NO
        name, url = given.get("name", ""), given.get("url", "").strip()
        return changes.create_webhook(name, url, _events(given), enabled=enabled, secret=secret, config=config)

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        row = find_webhook(connection, given["name"])
        body = {"name": row.name, "url": row.url, "events": list(row.events), "enabled": row.enabled}
        return Effect(
            sentence=f"Events from then on are sent to {row.url}. {_ONCE}",
            same=_same(row, curl("POST", API, body)),
            fields=fields_of({"Name": row.name, **_shown(row)}),
            notes=("Applying a file shows no secret: rotate it afterwards to see one.",),
        )

    return FormPage(
        template="webhook_form.html",
        address="/webhooks/-new",
        heading="Create webhook",
        trail=[WEBHOOKS],
        verb="Create webhook",
        act=_with_secret(change, effect, lambda given: given["name"]),
        usual=lambda _: {"enabled": YES, "switch": YES, "gap": YES, "quarantine": YES},
        choices={**_choices(), "is_new": True},
        empty="Enter a name and a URL to see the preview.",
    )


def _change_form(row: WebhookRow, config: Settings) -> FormPage:
    def usual(connection: Connection) -> Fields:
        now = find_webhook(connection, row.name)
        kinds = dict.fromkeys(now.events, YES)
        return {"url": now.url, "enabled": YES if now.enabled else NO, "version": str(now.version), **kinds}

    def change(given: Fields) -> WebhookChange:
        return changes.change_webhook(
            row.name,
            url=given.get("url", "").strip(),
            events=_events(given),
            enabled=given.get("enabled") != NO,
            config=config,
            match=version_seen(given),
        )

    def effect(connection: Connection, outcome: Outcome, _: Fields) -> Effect:
        after = find_webhook(connection, row.name)
        body = {"url": after.url, "events": list(after.events), "enabled": after.enabled}
        off = "Events while it is disabled are not sent; pending deliveries resume when it is enabled again."
        return Effect(
            sentence=f"{row.name} will have these settings, for events from then on."
            if outcome.events
            else "Nothing would change: these are the present settings.",
            same=_same(after, curl("PATCH", f"{API}/{row.name}", body, version=row.version)),
            fields=fields_of(_shown(after), _shown(row)),
            notes=(off,) if row.enabled and not after.enabled else (),
            nothing=not outcome.events,
        )

    return FormPage(
        template="webhook_form.html",
        address=f"{address_of(row.name)}/-change",
        heading=f"Change {row.name}",
        trail=_trail(row),
        verb="Change webhook",
        act=Command(change, effect, lambda _: address_of(row.name)),
        usual=usual,
        choices={**_choices(), "is_new": False},
    )


def _secret_form(row: WebhookRow, config: Settings) -> FormPage:
    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        call = curl("POST", f"{API}/{row.name}/secret", version=row.version)
        return Effect(
            sentence="Deliveries will be signed with a new secret, which is shown once, on the next page. Until "
            "the receiver has it, it refuses deliveries; these are sent again later.",
            same=SameChange(None, f"treeline webhook rotate {row.name}", call),
        )

    return _about(
        row,
        "secret",
        "Rotate secret",
        _with_secret(
            lambda given, secret: changes.rotate_secret(row.name, secret, config, version_seen(given)),
            effect,
            lambda _: row.name,
        ),
        f"Its secret is of {row.secret_since:%Y-%m-%d}; anybody who knows the secret can forge deliveries.",
    )


def _test_form(row: WebhookRow, _: Settings) -> FormPage:
    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        call = curl("POST", f"{API}/{row.name}/test")
        return Effect(
            sentence=f"A test event will be sent to {row.url}; the webhook's page shows the result.",
            same=SameChange(None, f"treeline webhook test {row.name}", call),
        )

    act = Command(lambda _: changes.send_test(row.name), effect, lambda _: address_of(row.name))
    return _about(row, "test", "Send test", act, "Check whether deliveries arrive and are accepted.")


def _delete_form(row: WebhookRow, _: Settings) -> FormPage:
    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        call = curl("DELETE", f"{API}/{row.name}", version=row.version)
        return Effect(
            sentence=f"Nothing more is sent to {row.url}; pending and past deliveries are deleted.",
            same=SameChange(None, f"treeline delete webhook {row.name}", call),
        )

    act = Command(
        lambda given: changes.delete_webhook(row.name, version_seen(given)), effect, lambda _: WEBHOOKS[1]
    )
    return _about(
        row, "delete", "Delete webhook", act, f"{row.name} sends to {row.url}: {events_listed(row.events)}."
    )


def _about(row: WebhookRow, way: str, heading: str, act: Any, hint: str) -> FormPage:
    """Build a form without fields."""
    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{address_of(row.name)}/-{way}",
        heading=heading,
        trail=_trail(row),
        verb=heading,
        act=act,
        usual=lambda connection: {"version": str(find_webhook(connection, row.name).version)},
        choices={"hint": hint},
    )


def _trail(row: WebhookRow) -> list[tuple[str, str]]:
    return [WEBHOOKS, (row.name, address_of(row.name))]


_FORMS = {"change": _change_form, "secret": _secret_form, "test": _test_form, "delete": _delete_form}


def _page(services: ConsoleServices, webhook: str, way: str) -> FormPage:
    """Build the form. Raises NotFound."""
    with services.reading() as connection:
        row = find_webhook(connection, webhook)
    return _FORMS[way](row, services.config)


@router.get("/webhooks/-new")
def new_webhook(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that creates a webhook."""
    caller = enter(viewer, Action.MANAGE_WEBHOOKS)
    return show_form(request, services, caller, _create_form(services.config))


@router.post("/webhooks/-new")
def create_webhook(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview a new webhook, or create it."""
    caller = enter(viewer, Action.MANAGE_WEBHOOKS)
    return answer_form(request, services, caller, _create_form(services.config), fields)


def _add_routes(way: str) -> None:
    def form(webhook: str, request: Request, services: Shared, viewer: Viewer) -> Response:
        """Show the form."""
        caller = enter(viewer, Action.MANAGE_WEBHOOKS)
        return show_form(request, services, caller, _page(services, webhook, way))

    def sent(webhook: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
        """Preview the change, or carry it out."""
        caller = enter(viewer, Action.MANAGE_WEBHOOKS)
        return answer_form(request, services, caller, _page(services, webhook, way), fields)

    router.add_api_route(f"{WEBHOOK}/-{way}", form, methods=["GET"])
    router.add_api_route(f"{WEBHOOK}/-{way}", sent, methods=["POST"])


for _way in _FORMS:
    _add_routes(_way)


def _retry_form(connection: Connection, webhook: str, fields: Fields) -> FormPage:
    row, typed = find_webhook(connection, webhook), fields.get("position", "")
    position = int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 19 else 0

    def effect(connection: Connection, _: Outcome, __: Fields) -> Effect:
        (delivery,) = list_deliveries(connection, row.name, at=position)
        return Effect(
            sentence=f"Event {position}, of kind {delivery.kind}, will be sent to {row.url} within seconds; its "
            "row shows the result.",
            same=SameChange(
                None,
                f"treeline webhook retry {row.name} {position}",
                curl("POST", f"{API}/{row.name}/deliveries/{position}/retry"),
            ),
            notes=("The receiver may have it already: it can recognise it by the id, which stays the same.",),
        )

    act = Command(lambda _: changes.retry_delivery(row.name, position), effect, lambda _: address_of(row.name))
    return _about(
        row, "retry", f"Send event {position} again", act, f"{row.name} receives: {events_listed(row.events)}."
    )


@router.post(WEBHOOK + "/-retry")
def retry(webhook: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview another delivery of an event, or request it."""
    caller = enter(viewer, Action.MANAGE_WEBHOOKS)
    with services.reading() as connection:
        page = _retry_form(connection, webhook, fields)
    return answer_form(request, services, caller, page, fields)
