"""`/timeline/{position}/-undo`: undo the changes of one event, after a preview."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes.undoing.finding import undoing
from backend.changes.undoing.undo import Undo
from backend.dispatch import Outcome
from backend.domain.access.access import Action, Caller
from backend.eventlog.recorded import StoredEvent
from backend.queries.base.differences import changed_by
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, FieldEffect
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.frame.timeline_view import changed, timeline_item
from backend.web.history.timeline_page import TIMELINE, existing_event

router = APIRouter(include_in_schema=False, route_class=PageRoute)

UNDO = TIMELINE + "/{position}/-undo"


@dataclass(frozen=True)
class Undoing:
    """Action of this form."""

    event: StoredEvent

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview by a dry run of the command that undoes the event."""
        with change_request.services.reading() as connection:
            undo = undoing(connection, self.event, change_request.viewer, only_tried=True)
        return change_request.dry_run(
            undo.change, lambda connection, outcome: self._effect(connection, outcome, undo)
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Undo the event, as the REST API does."""
        if change_request.was_carried_out(once, given):
            return RedirectResponse(TIMELINE, 303)
        with change_request.services.reading() as connection:
            undo = undoing(connection, self.event, change_request.viewer, given.get("confirm", "").strip())
        led_to = replace(change_request, causation=f"undo of {self.event.position}")
        led_to.carry_out_once(undo.change, once, given)
        return RedirectResponse(TIMELINE, 303)

    def _effect(self, connection: Connection, outcome: Outcome, undo: Undo) -> Effect:
        fields = [
            FieldEffect(f"{each.kind} {each.name}: {field.name}", field.before, field.after)
            for each in map(changed, changed_by(connection, outcome.events))
            for field in each.fields
        ]
        position = self.event.position
        body = {"confirm": undo.confirm} if undo.confirm else None
        confirm = f" --confirm {undo.confirm}" if undo.confirm else ""
        sentence = timeline_item(connection, self.event).sentence
        names = ", ".join(dict.fromkeys(each.name for each in outcome.events))
        return Effect(
            sentence=f"“{sentence}” will be undone by a new event: {names}. Earlier events stay in the log."
            if outcome.events
            else "Nothing would change: the event is already undone.",
            same=SameChange(
                None, f"treeline undo {position}{confirm}", curl("POST", f"/api/v1/events/{position}/undo", body)
            ),
            fields=tuple(fields),
            notes=undo.notes,
            nothing=not outcome.events,
            confirm=undo.confirm,
        )


def _page(services: ConsoleServices, caller: Caller, position: str) -> FormPage:
    """Return the form. Raises NotFound."""
    with services.reading() as connection:
        event = existing_event(connection, caller, position)
        item = timeline_item(connection, event)
    here = f"{TIMELINE}/{event.position}"
    return FormPage(
        template="undo.html",
        asks_nothing=True,
        address=f"{here}/-undo",
        heading=f"Undo event {event.position}",
        trail=[("Timeline", TIMELINE), (f"Position {event.position}", here)],
        verb="Undo event",
        act=Undoing(event),
        choices={"item": item},
    )


@router.get(UNDO)
def undo_preview(position: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the preview of the undo; there are no fields to fill in."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    return show_form(request, services, caller, _page(services, caller, position))


@router.post(UNDO)
def undo(position: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the undo, or run it."""
    caller = enter_in_some_tenant(viewer, Action.READ_TENANT)
    return answer_form(request, services, caller, _page(services, caller, position), fields)
