"""Event stream `webhook-<name>`: a receiver outside, which gets some events as signed HTTP requests.

    (none) --CreateWebhook--> exists --ChangeWebhook, RotateSecret, SendTest, RetryDelivery--> exists
                                |
                                +--DeleteWebhook--> (none)

A webhook gets the events that happen while it is enabled, from its first event on. What was sent, and with which
result, is observed and is no event (docs/operations.md, docs/decisions/0048). Its secret is in no event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import get_args

from backend.domain.base.errors import TAKEN, AlreadyExists, FieldError, NotFound, StateConflict, ValueInvalid
from backend.domain.base.event import Event
from backend.domain.base.limits import refuse
from backend.domain.distribution.edge_losses import (
    LossesAcknowledged,
    RecordSetAside,
    RecordsLost,
    SetAsideReplayed,
    SourceReplaced,
)
from backend.domain.names.names import check_name
from backend.domain.switch.cluster_switch import SwitchEvent
from backend.domain.tenants.stream import StreamTailLost
from backend.domain.webhooks.addresses import Network, address_of, parse_receiver, refusal

MOST_WEBHOOKS = 100


class EventKind(StrEnum):
    """Kinds of events that a webhook may receive."""

    SWITCH = "switch"
    """All events of a cluster switch."""
    GAP = "gap"
    """Records were or may have been lost, or a log was cut off; or a loss was acknowledged."""
    QUARANTINE = "quarantine"
    """A record was dead-lettered, or a dead letter was replayed."""


TEST = "test"
"""Kind of a delivery that somebody requested as a test."""

# --- events


@dataclass(frozen=True, kw_only=True)
class WebhookCreated(Event, name="WebhookCreated", version=1):
    """A webhook was created; its receiver gets events from now on."""

    webhook: str
    url: str
    """URL of the receiver; no place for secrets, since all readers of the log see it."""
    events: tuple[str, ...]
    """Kinds of events, as in EventKind, sorted."""
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class WebhookChanged(Event, name="WebhookChanged", version=1):
    """The webhook's settings have changed; every field is the full new value."""

    webhook: str
    url: str
    events: tuple[str, ...]
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class WebhookSecretRotated(Event, name="WebhookSecretRotated", version=1):
    """Deliveries are signed with a new secret from now on."""

    webhook: str


@dataclass(frozen=True, kw_only=True)
class WebhookTested(Event, name="WebhookTested", version=1):
    """A test was requested: this very event is sent to the receiver."""

    webhook: str


@dataclass(frozen=True, kw_only=True)
class WebhookDeliveryRetried(Event, name="WebhookDeliveryRetried", version=1):
    """Another attempt to deliver an event was requested."""

    webhook: str
    delivery: int
    """Position of that event."""


@dataclass(frozen=True, kw_only=True)
class WebhookDeleted(Event, name="WebhookDeleted", version=1):
    """The webhook was deleted; nothing is sent to it any more, including pending deliveries."""

    webhook: str


WebhookEvent = (
    WebhookCreated
    | WebhookChanged
    | WebhookSecretRotated
    | WebhookTested
    | WebhookDeliveryRetried
    | WebhookDeleted
)

_GAPS = (RecordsLost, SourceReplaced, LossesAcknowledged, StreamTailLost)
KIND_OF_EVENT: Mapping[str, str] = {
    **{each.stored_name: EventKind.SWITCH.value for each in get_args(SwitchEvent)},
    **{each.stored_name: EventKind.GAP.value for each in _GAPS},
    **{each.stored_name: EventKind.QUARANTINE.value for each in (RecordSetAside, SetAsideReplayed)},
}
"""Stored name of an event -> kind of events that it belongs to."""

# --- commands


@dataclass(frozen=True, kw_only=True)
class CreateWebhook:
    """Create a webhook.

    `webhooks`: number of existing webhooks; `allowed`: networks besides the public ones.
    """

    webhook: str
    url: str
    events: Collection[str]
    enabled: bool
    webhooks: int
    allowed: Sequence[Network] = ()


@dataclass(frozen=True, kw_only=True)
class ChangeWebhook:
    """Change a webhook's settings; None keeps a value."""

    url: str | None = None
    events: Collection[str] | None = None
    enabled: bool | None = None
    allowed: Sequence[Network] = ()


@dataclass(frozen=True)
class RotateSecret:
    """Sign deliveries with a new secret."""


@dataclass(frozen=True)
class SendTest:
    """Send a test event to the receiver."""


@dataclass(frozen=True, kw_only=True)
class RetryDelivery:
    """Send an event again. `known`: the event was sent to this webhook, or is pending."""

    delivery: int
    known: bool


@dataclass(frozen=True)
class DeleteWebhook:
    """Delete the webhook."""


WebhookCommand = CreateWebhook | ChangeWebhook | RotateSecret | SendTest | RetryDelivery | DeleteWebhook

# --- state


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A webhook as its events left it; None where there is none."""

    name: str
    url: str
    events: tuple[str, ...]
    enabled: bool


INITIAL: Webhook | None = None

# --- decide


def decide(state: Webhook | None, command: WebhookCommand) -> list[WebhookEvent]:
    """Return the events that carry the command out; none if they would change nothing.

    Raises NameInvalid, ValueInvalid, AlreadyExists, NotFound and StateConflict.
    """
    if isinstance(command, CreateWebhook):
        return [_created(state, command)]
    if state is None:
        raise NotFound("there is no such webhook; GET /webhooks lists them")
    match command:
        case ChangeWebhook():
            return _changed(state, command)
        case RotateSecret():
            return [WebhookSecretRotated(webhook=state.name)]
        case SendTest():
            if not state.enabled:
                raise StateConflict(f"{state.name} is disabled, so nothing is sent to it; enable it first")
            return [WebhookTested(webhook=state.name)]
        case RetryDelivery():
            if not command.known:
                raise NotFound(f"{state.name} has no delivery of position {command.delivery}")
            return [WebhookDeliveryRetried(webhook=state.name, delivery=command.delivery)]
        case DeleteWebhook():
            return [WebhookDeleted(webhook=state.name)]


def _created(state: Webhook | None, command: CreateWebhook) -> WebhookCreated:
    check_name(command.webhook, "webhook")
    if state is not None:
        raise AlreadyExists(f"webhook {command.webhook} already exists", TAKEN)
    refuse([*_wrong_events(command.events), *_wrong_url(command.url, command.allowed)])
    if command.webhooks >= MOST_WEBHOOKS:
        raise StateConflict(f"there are {command.webhooks} webhooks, which is the limit; delete one first")
    events = tuple(sorted(set(command.events)))
    return WebhookCreated(webhook=command.webhook, url=command.url, events=events, enabled=command.enabled)


def _changed(state: Webhook, command: ChangeWebhook) -> list[WebhookEvent]:
    url = state.url if command.url is None else command.url
    events = state.events if command.events is None else tuple(sorted(set(command.events)))
    enabled = state.enabled if command.enabled is None else command.enabled
    wrong_url = [] if command.url is None else _wrong_url(url, command.allowed)
    refuse([*_wrong_events(events), *wrong_url])
    if (url, events, enabled) == (state.url, state.events, state.enabled):
        return []
    return [WebhookChanged(webhook=state.name, url=url, events=events, enabled=enabled)]


def _wrong_events(events: Collection[str]) -> list[FieldError]:
    known = ", ".join(EventKind)
    unknown = sorted(set(events) - set(EventKind))
    if unknown:
        return [FieldError("/events", f"{unknown[0][:60]!r} is not a kind of events; use {known}")]
    return [] if events else [FieldError("/events", f"choose at least one of: {known}")]


def _wrong_url(url: str, allowed: Sequence[Network]) -> list[FieldError]:
    try:
        address = address_of(parse_receiver(url).host)
        why = None if address is None else refusal(address, allowed)
    except ValueInvalid as error:
        why = error.detail
    return [] if why is None else [FieldError("/url", why)]


# --- evolve


def evolve(state: Webhook | None, event: Event) -> Webhook | None:
    """Return the state after an event; events of other versions of this program never make it fail."""
    match event:
        case WebhookCreated():
            return Webhook(name=event.webhook, url=event.url, events=event.events, enabled=event.enabled)
        case WebhookChanged() if state is not None:
            return replace(state, url=event.url, events=event.events, enabled=event.enabled)
        case WebhookDeleted():
            return None
        case _:
            return state


def event_stream(webhook: str) -> str:
    """Return the name of a webhook's event stream."""
    return f"webhook-{webhook}"
