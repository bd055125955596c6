"""`/events/{position}/undo`: undo the changes of one event."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import Body, Writing
from backend.api.history.events import LAST_POSITION, shown_difference
from backend.changes.undoing.finding import undoing
from backend.changes.undoing.undo import Undo
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action, Caller, tenants_read
from backend.domain.base.errors import NotFound, ValueInvalid
from backend.eventlog.recorded import StoredEvent
from backend.queries.base.differences import changed_by
from backend.queries.base.events import event_at

router = APIRouter(prefix="/events", tags=["events"])


class Undoing(Body):
    """Options of an undo."""

    confirm: str | None = Field(
        None, max_length=1000, description="Full name of the resource, required if the undo deletes records."
    )


@router.post("/{position}/undo", openapi_extra=needs(Action.READ_TENANT))
def undo_event(
    position: Annotated[int, Path(ge=1, le=LAST_POSITION, description="Position of the event.")],
    write: Writing,
    caller: Asking,
    body: Undoing | None = None,
) -> Response:
    """Undo what one event changed, by a command with its usual permissions; `dry_run` returns the differences.

    409 if it was changed since or a confirmation is missing; 422 for events that no command can undo.
    """
    if write.if_match is not None:
        raise ValueInvalid("an undo does not accept If-Match: it compares the event's changes field by field")
    first = write.first_answer()
    if first is not None:
        return first
    confirm = (body.confirm if body else None) or ""
    with write.services.reading() as connection:
        event = _event(connection, caller, position)
        undo = undoing(connection, event, caller, confirm)
    led_to = replace(write, metadata=replace(write.metadata, causation=f"undo of {position}"))

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        changes = changed_by(connection, outcome.events)
        return Answer(200, _shown(event, outcome, [shown_difference(each) for each in changes], undo))

    return led_to.carry_out(undo.change, answer)


def _event(connection: Connection, caller: Caller, position: int) -> StoredEvent:
    event = event_at(connection, position, tenants_read(caller))
    if event is None:
        raise NotFound(f"there is no event at position {position}")
    return event


def _shown(event: StoredEvent, outcome: Outcome, changes: list[dict[str, Any]], undo: Undo) -> dict[str, Any]:
    return {
        "position": event.position,
        "undone": event.name,
        "by": [{"position": each.position, "name": each.name} for each in outcome.events],
        "changes": changes,
        "notes": list(undo.notes),
        "confirm": undo.confirm or None,
    }
