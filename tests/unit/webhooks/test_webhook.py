"""Webhooks: given events, when a command comes, then these events, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from backend.domain.base.errors import (
    AlreadyExists,
    DomainError,
    NameInvalid,
    NotFound,
    StateConflict,
    ValueInvalid,
)
from backend.domain.base.event import Event
from backend.domain.webhooks import webhook
from backend.domain.webhooks.addresses import parse_networks
from backend.domain.webhooks.webhook import (
    ChangeWebhook,
    CreateWebhook,
    DeleteWebhook,
    RetryDelivery,
    RotateSecret,
    SendTest,
    WebhookChanged,
    WebhookCreated,
    WebhookDeleted,
    WebhookDeliveryRetried,
    WebhookSecretRotated,
    WebhookTested,
)

URL = "https://receiver.example/treeline"
CREATED = WebhookCreated(webhook="ops", url=URL, events=("gap", "switch"), enabled=True)


def create(**changes: Any) -> CreateWebhook:
    usual = {"webhook": "ops", "url": URL, "events": ["switch", "gap", "gap"], "enabled": True, "webhooks": 0}
    return CreateWebhook(**{**usual, **changes})


def decide(given: list[Event], command: Any) -> list[Any]:
    state = webhook.INITIAL
    for event in given:
        state = webhook.evolve(state, event)
    return webhook.decide(state, command)


def refused(given: list[Event], command: Any, error: type[DomainError]) -> str:
    with pytest.raises(error) as raised:
        decide(given, command)
    return raised.value.detail


def changed(**changes: Any) -> WebhookChanged:
    return WebhookChanged(**{**vars(CREATED), **changes})


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([], create(), [CREATED]),
        ([CREATED], ChangeWebhook(enabled=False), [changed(enabled=False)]),
        ([CREATED], ChangeWebhook(events=["quarantine"]), [changed(events=("quarantine",))]),
        ([CREATED], ChangeWebhook(url=URL, events=["switch", "gap"]), []),
        ([CREATED, changed(enabled=False)], ChangeWebhook(enabled=False), []),
        ([CREATED], RotateSecret(), [WebhookSecretRotated(webhook="ops")]),
        ([CREATED], SendTest(), [WebhookTested(webhook="ops")]),
        ([CREATED], RetryDelivery(delivery=7, known=True), [WebhookDeliveryRetried(webhook="ops", delivery=7)]),
        ([CREATED], DeleteWebhook(), [WebhookDeleted(webhook="ops")]),
        ([CREATED, WebhookDeleted(webhook="ops")], create(), [CREATED]),
    ],
)
def test_what_a_command_gives(given: list[Event], command: Any, then: list[Event]) -> None:
    assert decide(given, command) == then


@pytest.mark.parametrize("command", [ChangeWebhook(), RotateSecret(), SendTest(), DeleteWebhook()])
def test_nothing_is_done_to_what_is_not_there(command: Any) -> None:
    refused([], command, NotFound)
    refused([CREATED, WebhookDeleted(webhook="ops")], command, NotFound)


def test_refusals_say_what_is_wrong() -> None:
    refused([CREATED], create(), AlreadyExists)
    refused([], create(webhook="Ops!"), NameInvalid)
    assert "delete one first" in refused([], create(webhooks=webhook.MOST_WEBHOOKS), StateConflict)
    assert "enable it first" in refused([CREATED, changed(enabled=False)], SendTest(), StateConflict)
    assert "position 7" in refused([CREATED], RetryDelivery(delivery=7, known=False), NotFound)
    assert "'all' is not a kind of events; use switch, gap, quarantine" in refused(
        [], create(events=["all"]), ValueInvalid
    )
    assert "choose at least one" in refused([CREATED], ChangeWebhook(events=[]), ValueInvalid)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("receiver.example/treeline", "such as https://"),
        ("ftp://receiver.example/", "such as https://"),
        ("https:///treeline", "such as https://"),
        ("https://receiver.example:0/", "has port 0"),
        ("https://receiver.example:99999/", "has port 99999"),
        ("https://[::1", "such as https://"),
        ("https://receiver.example:/", "such as https://"),
        ("https://[nothing]/", "such as https://"),
        ("https://[1:2]/", "such as https://"),
        ("https://receiver.example\\@10.0.0.1/", "contains a login"),
        ("https://receiver%2eexample/", "such as https://"),
        ("https://ada:secret@receiver.example/", "contains a login"),
        ("https://receiver.example/#part", "never sent"),
        ("https://receiver.example/a b", "%20"),
        ("https://receiver.example/a\r\nX-Header: 1", "%20"),
        ("https://receiver.example/ü", "%20"),
        ("https://receiver.example/" + "a" * 2000, "the limit is 2000"),
        ("http://127.0.0.1:8000/", "not a public address"),
        ("http://169.254.169.254/latest/", "not a public address"),
        ("http://[::ffff:10.0.0.1]/", "not a public address"),
    ],
)
def test_an_address_that_cannot_be_one(url: str, why: str) -> None:
    assert why in refused([], create(url=url), ValueInvalid)
    assert why in refused([CREATED], ChangeWebhook(url=url), ValueInvalid)


def test_an_address_in_a_network_that_is_allowed() -> None:
    there = "http://127.0.0.1:8000/hook"
    allowed = parse_networks("127.0.0.0/8")
    [made] = decide([], create(url=there, allowed=allowed))
    assert made.url == there
    # What an address was allowed for before does not stop another change: nothing is sent there, which is told.
    assert decide([made], ChangeWebhook(enabled=False))


def test_every_event_of_the_three_kinds_is_told() -> None:
    kinds = webhook.KIND_OF_EVENT
    assert kinds["SwitchStarted"] == kinds["ClientsMoved"] == kinds["StrandedRecordsArrived"] == "switch"
    assert {name for name, kind in kinds.items() if kind == "gap"} == {
        "RecordsLost",
        "SourceReplaced",
        "LossesAcknowledged",
        "StreamTailLost",
    }
    assert {name for name, kind in kinds.items() if kind == "quarantine"} == {"RecordSetAside", "SetAsideReplayed"}
