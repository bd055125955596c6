"""`/switches/{id}/-abort`: preview and confirm an abort.

The switch continues meanwhile. The abort is executed in whatever phase the switch has reached since the preview,
so that an operator who sees clients hold is not asked twice; it is refused only after the move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes.switches import abort_commands
from backend.dispatch import Directed
from backend.domain.access.access import Action
from backend.domain.base.errors import StateConflict
from backend.domain.switch.cluster_switch import HELD, Phase, SwitchAborted
from backend.domain.switch.switch_commands import OPERATOR, Abort
from backend.domain.tree.tree import DistributorTargetSwitched
from backend.eventlog.recorded import RecordedEvent
from backend.queries.base.names_of_events import name_switches
from backend.queries.switch.switches import SwitchRow, find_switch
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, FieldEffect
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.switch.switch_page import SWITCH
from backend.web.switch.switch_words import LABELS, scope
from backend.web.switch.switches_page import SWITCHES
from backend.web.words.names import switch_name

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ABORT = SWITCH + "/-abort"
_MOVED = (
    "The clients were moved already, so the switch can no longer be aborted. To move them back, use "
    "Plan reverse switch on the page of the switch."
)


@dataclass(frozen=True)
class Aborting:
    """Change of this form: the abort of a switch."""

    switch: str

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Return the effect of an abort, by a dry run."""
        before: list[SwitchRow] = []

        def build(connection: Connection) -> Sequence[Directed]:
            before.append(find_switch(connection, self.switch))
            return self._abort_commands(connection, change_request)

        events = change_request.dry_run_together(build, lambda _, recorded: recorded)
        return _effect(before[0], events)

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Abort the switch and restore the targets that it changed; a repeat changes nothing."""
        change_request.carry_out_together_once(
            lambda connection: self._abort_commands(connection, change_request), once, given
        )
        return RedirectResponse(f"/switches/{self.switch}", 303)

    def _abort_commands(self, connection: Connection, change_request: ChangeRequest) -> Sequence[Directed]:
        if find_switch(connection, self.switch).state in (Phase.VERIFYING, Phase.COMPLETED):
            raise StateConflict(_MOVED)
        return abort_commands(connection, self.switch, Abort(by=OPERATOR), change_request.metadata)


def _effect(row: SwitchRow, recorded: Sequence[RecordedEvent]) -> Effect:
    """Return the effect on a switch (as it was before) of the events that the dry run recorded."""
    same = SameChange(None, f"treeline switch abort {row.id}", curl("POST", f"/api/v1/switches/{row.id}/abort"))
    events = [each.event for each in recorded]
    aborted = next((event for event in events if isinstance(event, SwitchAborted)), None)
    if aborted is None:
        return Effect(sentence="Nothing would change: the switch is aborted already.", same=same, nothing=True)
    back = [event for event in events if isinstance(event, DistributorTargetSwitched)]
    return Effect(
        sentence=f"The switch ends. Clients of {scope(row.moves)} continue on {row.source}; no record is lost.",
        same=same,
        fields=(
            FieldEffect("Switch", LABELS[row.state], LABELS[Phase.ABORTED]),
            FieldEffect("Clients are sent to", row.source, row.source),
            *(
                FieldEffect(f"{each.cluster} level {each.level} copies to", each.previous, each.target)
                for each in back
            ),
        ),
        notes=(
            "The switch continues during this preview. After the move, abort is refused; use reverse instead.",
        ),
        lists=(
            ("Clients", _effect_on_clients(row, aborted)),
            ("What stays", _remaining(row, aborted)),
        ),
    )


def _effect_on_clients(row: SwitchRow, aborted: SwitchAborted) -> tuple[str, ...]:
    if row.state not in HELD:
        return (f"Clients do not hold yet; they stay on {row.source} without interruption.",)
    lines = [
        f"Producers that hold continue at once on {row.source} and send their buffered records there, in order."
    ]
    if aborted.generation is not None:
        lines.append(
            f"Consumers that have closed resume on {row.source} from their committed offsets, in generation "
            f"{aborted.generation}."
        )
    else:
        lines.append(f"Consumers were not closed yet; they stay on {row.source}.")
    return tuple(lines)


def _remaining(row: SwitchRow, aborted: SwitchAborted) -> tuple[str, ...]:
    lines = [f"Records that have arrived on {row.target}; distribution continues."]
    if aborted.generation is not None:
        lines.append(
            f"Group offsets that were set on {row.target}. New commits on {row.source} are still translated there."
        )
    lines.append(
        "The switch in the list, with its phases and the user who aborted it. To try again, start another switch."
    )
    return tuple(lines)


def _page(services: ConsoleServices, switch: str) -> FormPage:
    """Return the form page of an abort. Raises NotFound."""
    with services.reading() as connection:
        row = find_switch(connection, switch)
        name = switch_name(name_switches(connection, [switch]).get(switch), switch)
    return FormPage(
        template="switch_abort.html",
        asks_nothing=True,
        address=f"/switches/{row.id}/-abort",
        heading=f"Abort: {row.source} to {row.target}",
        trail=[SWITCHES, (name, f"/switches/{row.id}")],
        verb="Abort switch",
        back="Back to switch",
        act=Aborting(row.id),
    )


@router.get(ABORT)
def abort_preview(switch: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the effect of an abort now; the form has no fields."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, switch))


@router.post(ABORT)
def abort_switch(switch: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the abort, or abort the switch."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services, switch), fields)
