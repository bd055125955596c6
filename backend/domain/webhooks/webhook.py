"""Event stream `webhook-<name>`: somebody outside who is told of some events, by a signed HTTP request each.

    (none) --CreateWebhook--> there --ChangeWebhook, RotateSecret, SendTest, RetryDelivery--> there
                                |
                                +--DeleteWebhook--> (none)

What a webhook is told is what happened while it was enabled, since its first event; what was sent, and how
that went, is observed and no event (docs/operations.md, docs/decisions/0048). Its secret is in no event.
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
from backend.domain.webhooks.addresses import Network, address_of, receiver_at, refusal

MOST_WEBHOOKS = 100


class EventKind(StrEnum):
    """What a webhook may be told of."""

    SWITCH = "switch"
    """All that a cluster switch does."""
    GAP = "gap"
    """Records were lost, or may be, or a log was cut off; that was taken note of."""
    QUARANTINE = "quarantine"
    """A record was set aside, or replayed."""


TEST = "test"
"""The kind of what is sent because somebody asked for a test."""

# --- events


@dataclass(frozen=True, kw_only=True)
class WebhookCreated(Event, name="WebhookCreated", version=1):
    """From now on this receiver is told."""

    webhook: str
    url: str
    """Where requests go; no place for secrets, since everybody who reads the log sees it."""
    events: tuple[str, ...]
    """Kinds, as EventKind names them, sorted."""
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class WebhookChanged(Event, name="WebhookChanged", version=1):
    """It is like this from now on; every field is the full new value."""

    webhook: str
    url: str
    events: tuple[str, ...]
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class WebhookSecretRotated(Event, name="WebhookSecretRotated", version=1):
    """What is sent from now on is signed with another secret."""

    webhook: str


@dataclass(frozen=True, kw_only=True)
class WebhookTested(Event, name="WebhookTested", version=1):
    """Somebody wants to see whether it works: this very event is sent to it."""

    webhook: str


@dataclass(frozen=True, kw_only=True)
class WebhookDeliveryRetried(Event, name="WebhookDeliveryRetried", version=1):
    """Somebody has an event sent again."""

    webhook: str
    delivery: int
    """The position of that event."""


@dataclass(frozen=True, kw_only=True)
class WebhookDeleted(Event, name="WebhookDeleted", version=1):
    """It is told nothing any more, not even what waited."""

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
TOLD: Mapping[str, str] = {
    **{each.stored_name: EventKind.SWITCH.value for each in get_args(SwitchEvent)},
    **{each.stored_name: EventKind.GAP.value for each in _GAPS},
    **{each.stored_name: EventKind.QUARANTINE.value for each in (RecordSetAside, SetAsideReplayed)},
}
"""Stored name of an event -> kind of those who are told of it."""

# --- commands


@dataclass(frozen=True, kw_only=True)
class CreateWebhook:
    """Tell somebody from now on. `webhooks`: how many there are; `allowed`: networks beside the public ones."""

    webhook: str
    url: str
    events: Collection[str]
    enabled: bool
    webhooks: int
    allowed: Sequence[Network] = ()


@dataclass(frozen=True, kw_only=True)
class ChangeWebhook:
    """Have it otherwise; None keeps a value."""

    url: str | None = None
    events: Collection[str] | None = None
    enabled: bool | None = None
    allowed: Sequence[Network] = ()


@dataclass(frozen=True)
class RotateSecret:
    """Sign with another secret from now on."""


@dataclass(frozen=True)
class SendTest:
    """Send something, to see whether it comes."""


@dataclass(frozen=True, kw_only=True)
class RetryDelivery:
    """Send an event again. `known`: whether it was sent, or is to be."""

    delivery: int
    known: bool


@dataclass(frozen=True)
class DeleteWebhook:
    """Tell it nothing any more."""


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
    """Events that carry the command out; none for what is so already.

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
                raise StateConflict(f"{state.name} is disabled, and is sent nothing: enable it first")
            return [WebhookTested(webhook=state.name)]
        case RetryDelivery():
            if not command.known:
                raise NotFound(f"no delivery of {state.name} is of position {command.delivery}")
            return [WebhookDeliveryRetried(webhook=state.name, delivery=command.delivery)]
        case DeleteWebhook():
            return [WebhookDeleted(webhook=state.name)]


def _created(state: Webhook | None, command: CreateWebhook) -> WebhookCreated:
    check_name(command.webhook, "webhook")
    if state is not None:
        raise AlreadyExists(f"there is a webhook {command.webhook} already", TAKEN)
    refuse([*_wrong_events(command.events), *_wrong_url(command.url, command.allowed)])
    if command.webhooks >= MOST_WEBHOOKS:
        raise StateConflict(f"there are {command.webhooks} webhooks, and no more may be: delete one first")
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
        return [FieldError("/events", f"{unknown[0][:60]!r} is no kind of events; there are: {known}")]
    return [] if events else [FieldError("/events", f"name one kind at least of: {known}")]


def _wrong_url(url: str, allowed: Sequence[Network]) -> list[FieldError]:
    try:
        address = address_of(receiver_at(url).host)
        why = None if address is None else refusal(address, allowed)
    except ValueInvalid as error:
        why = error.detail
    return [] if why is None else [FieldError("/url", why)]


# --- evolve


def evolve(state: Webhook | None, event: Event) -> Webhook | None:
    """The state after an event; events of other versions of this program never make it fail."""
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
    """Of one webhook."""
    return f"webhook-{webhook}"
