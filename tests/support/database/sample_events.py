"""A small stream of events for tests of the event log, with one event that has an earlier version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from backend.domain.base.errors import ValueInvalid
from backend.domain.base.event import Event
from backend.eventlog.recorded import Metadata
from backend.eventlog.registry import EventRegistry
from backend.eventlog.upcasters import Upcasters

METADATA = Metadata(actor="tester", request_id="request-1")
TIME = datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)


@dataclass(frozen=True)
class Coin:
    metal: str
    value: int


@dataclass(frozen=True, kw_only=True)
class Paid(Event, name="Paid", version=2):
    """Version 2 added `currency`; until then everything was paid in shells."""

    amount: int
    currency: str
    coins: tuple[Coin, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Noted(Event, name="Noted", version=1):
    note: object


def registry() -> EventRegistry:
    upcasters = Upcasters()
    upcasters.add("Paid", 1, lambda data: {**data, "currency": "shell"})
    made = EventRegistry(upcasters)
    made.register(Paid)
    made.register(Noted)
    return made


def paid(amount: int, *coins: Coin) -> Paid:
    return Paid(amount=amount, currency="shell", coins=coins)


@dataclass(frozen=True)
class Pay:
    amount: int


def decide(balance: int, command: Pay) -> list[Event]:
    if command.amount < 0:
        raise ValueInvalid("Nobody pays less than nothing")
    return [paid(command.amount)] if command.amount else []


def evolve(balance: int, event: Event) -> int:
    return balance + event.amount if isinstance(event, Paid) else balance
