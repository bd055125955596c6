"""The undo of an event, and the conditions under which there is none.

An event log is append-only. To undo an event is to give the command that restores what it changed, unless that was
changed again since: a later change must not be overwritten by an undo of an earlier event.
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
    """The change of this event cannot be undone by a command."""

    slug = "cannot-be-undone"


class ConfirmationNeeded(DomainError):
    """To undo this, type its full name."""

    slug = "confirmation-needed"
    kind = Kind.CONFLICT


@dataclass(frozen=True, kw_only=True)
class Undo:
    """Command that undoes an event."""

    change: Change[Any, Any]
    action: Action
    """Permission that the undo requires."""
    tenant: str | None = None
    """Tenant in which it is required; None: in the estate."""
    confirm: str = ""
    """Name to type for confirmation, since records may be lost; empty if none is needed."""
    notes: tuple[str, ...] = ()
    """Notes about what the undo does not restore."""


@dataclass(frozen=True)
class UndoRequest:
    """Event to undo, and the caller who requests it."""

    connection: Connection
    event: StoredEvent
    caller: Caller
    confirm: str
    """Name that the user typed to confirm; empty if none."""

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the event's data."""
        return self.event.data

    @property
    def at(self) -> int:
        """Return the event's position."""
        return self.event.position

    @property
    def before(self) -> int:
        """Return the position before the event."""
        return self.event.position - 1


Find = Callable[[UndoRequest], Undo]
"""Finds the undo of an event. Raises CannotBeUndone, StateConflict."""


def unchanged(what: str, set_by_event: Mapping[str, Any], now: Mapping[str, Any] | None) -> None:
    """Raise StateConflict unless the fields still have the event's values; `now` None: the resource is gone."""
    if now is None:
        raise StateConflict(f"{what} no longer exists: it was removed after this event")
    for name, value in set_by_event.items():
        if now[name] != value:
            raise StateConflict(
                f"{name.replace('_', ' ')} of {what} is {_said(now[name])} now, not {_said(value)} as "
                "this event set it: somebody changed it since. Undo that first, or set the value that you want"
            )


def check_not_replaced(asked: UndoRequest, what: str, ends: Collection[str], *named_by: str) -> None:
    """Raise StateConflict if one of these events ended the event's resource: another one has its name now.

    `named_by`: the fields of the data that name the resource on the event's stream.
    """
    ended = happened_since(asked.connection, asked.event, ends, **{name: asked.data[name] for name in named_by})
    if ended is not None:
        raise StateConflict(
            f"{what} of this event ended at position {ended}; its name now belongs to another resource"
        )


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that an event changed, with the values that it set."""
    return {name: value for name, value in after.items() if before.get(name) != value}


def _said(value: object) -> str:
    return "none" if value is None else str(value)
