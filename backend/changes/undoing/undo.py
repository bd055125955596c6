"""What an undo is, and when there is none.

An event log is only ever added to. To undo an event is to give the command that makes what it changed as it was
before, as long as nobody has changed it since: what somebody else has set meanwhile is not written over by one who
looks at an earlier event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import DomainError, Kind, StateConflict
from backend.eventlog.recorded import StoredEvent
from backend.queries.base.events import happened_since


class CannotBeUndone(DomainError):
    """What this event says cannot be undone by a command."""

    slug = "cannot-be-undone"


class ConfirmationNeeded(DomainError):
    """To undo this, its name has to be given in full."""

    slug = "confirmation-needed"
    kind = Kind.CONFLICT


@dataclass(frozen=True, kw_only=True)
class Undo:
    """The command that takes an event back."""

    change: Change[Any, Any]
    action: Action
    """What whoever does it has to be allowed,"""
    tenant: str | None = None
    """and where; None: in the estate."""
    confirm: str = ""
    """What has to be said in full, since records may be lost."""
    notes: tuple[str, ...] = ()
    """What does not become as it was."""


@dataclass(frozen=True)
class Asked:
    """Which event is to be undone, by whom."""

    connection: Connection
    event: StoredEvent
    caller: Caller
    confirm: str
    """What was said in full; empty: nothing."""

    @property
    def data(self) -> Mapping[str, Any]:
        """What the event says."""
        return self.event.data

    @property
    def at(self) -> int:
        """Its position."""
        return self.event.position

    @property
    def before(self) -> int:
        """The position before it."""
        return self.event.position - 1


Find = Callable[[Asked], Undo]
"""Raises CannotBeUndone, StateConflict."""


def unchanged(what: str, set_by_event: Mapping[str, Any], now: Mapping[str, Any] | None) -> None:
    """Raises StateConflict unless what an event has set is still so; `now` None: the thing is gone."""
    if now is None:
        raise StateConflict(f"{what} is no longer there: it was removed after this event")
    for name, value in set_by_event.items():
        if now[name] != value:
            raise StateConflict(
                f"{name.replace('_', ' ')} of {what} is {_said(now[name])} by now, and not {_said(value)} as this "
                "event set it: somebody changed it since. Undo that first, or change it as it is to be"
            )


def still_the_same(asked: Asked, what: str, ends: Collection[str], *named_by: str) -> None:
    """Raises StateConflict if one of these events has ended what an event made: what has its name by now
    is another thing. `named_by`: the data that name it on the event's stream."""
    ended = happened_since(asked.connection, asked.event, ends, **{name: asked.data[name] for name in named_by})
    if ended is not None:
        raise StateConflict(f"{what} of this event ended at position {ended}; one of that name is another one")


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an event changed, as it set them."""
    return {name: value for name, value in after.items() if before.get(name) != value}


def _said(value: object) -> str:
    return "none" if value is None else str(value)
