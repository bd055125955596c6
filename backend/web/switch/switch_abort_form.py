"""`/switches/{id}/-abort`: what it does, now, to take a switch back, and taking it back.

The switch goes on meanwhile. An abort is carried out whatever phase it has come to since the preview, as
who sees clients held does not want to be asked again; only a move that came before refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes.switches import taking_back
from backend.dispatch import Directed
from backend.domain.access.access import Action
from backend.domain.base.errors import StateConflict
from backend.domain.switch.cluster_switch import HELD, Phase, SwitchAborted
from backend.domain.switch.switch_commands import OPERATOR, Abort
from backend.domain.tree.tree import DistributorTargetSwitched
from backend.eventlog.recorded import RecordedEvent
from backend.queries.switch.switches import SwitchRow, find_switch
from backend.web.forms.asked import Asked
from backend.web.forms.effect import Effect, FieldEffect
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.switch.switch_page import SWITCH
from backend.web.switch.switch_words import LABELS, scope
from backend.web.switch.switches_page import SWITCHES

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ABORT = SWITCH + "/-abort"
_MOVED = (
    "The clients were moved already: nothing can be taken back any more. Reverse, on the page of the switch, "
    "leads them back."
)


@dataclass(frozen=True)
class Aborting:
    """The act of this form."""

    switch: str

    def try_out(self, asked: Asked, given: Fields) -> Effect:
        """By a dry run."""
        before: list[SwitchRow] = []

        def build(connection: Connection) -> Sequence[Directed]:
            before.append(find_switch(connection, self.switch))
            return self._taking_back(connection, asked)

        events = asked.try_out_together(build, lambda _, recorded: recorded)
        return _effect(before[0], events)

    def carry_out(self, asked: Asked, given: Fields, once: str) -> Response:
        """With the targets that it has changed. A repeat changes nothing."""
        asked.carry_out_together_once(lambda connection: self._taking_back(connection, asked), once, given)
        return RedirectResponse(f"/switches/{self.switch}", 303)

    def _taking_back(self, connection: Connection, asked: Asked) -> Sequence[Directed]:
        if find_switch(connection, self.switch).state in (Phase.VERIFYING, Phase.COMPLETED):
            raise StateConflict(_MOVED)
        return taking_back(connection, self.switch, Abort(by=OPERATOR), asked.metadata)


def _effect(row: SwitchRow, recorded: Sequence[RecordedEvent]) -> Effect:
    """Of a switch as it was before, and what the dry run has added."""
    same = SameChange(None, f"treeline switch abort {row.id}", curl("POST", f"/api/v1/switches/{row.id}/abort"))
    events = [each.event for each in recorded]
    aborted = next((event for event in events if isinstance(event, SwitchAborted)), None)
    if aborted is None:
        return Effect(sentence="Nothing would change: it is taken back already.", same=same, nothing=True)
    back = [event for event in events if isinstance(event, DistributorTargetSwitched)]
    return Effect(
        sentence=f"The switch ends. Clients of {scope(row.moves)} go on where they were, on {row.source}; "
        "no record is lost.",
        same=same,
        fields=(
            FieldEffect("Switch", LABELS[row.state], LABELS[Phase.ABORTED]),
            FieldEffect("Clients are sent to", row.source, row.source),
            *(
                FieldEffect(f"{each.cluster} level {each.level} copies to", each.previous, each.target)
                for each in back
            ),
        ),
        notes=("It goes on while you look. Once clients are moved this is refused, and Reverse leads them back.",),
        lists=(
            ("Clients", _of_clients(row, aborted)),
            ("What stays", _staying(row, aborted)),
        ),
    )


def _of_clients(row: SwitchRow, aborted: SwitchAborted) -> tuple[str, ...]:
    if row.state not in HELD:
        return (f"Nobody is held yet: they stay on {row.source} and notice nothing.",)
    said = [
        f"Producers that hold go on at once on {row.source}, and send there what has waited with them, in order."
    ]
    if aborted.generation is not None:
        said.append(
            f"Consumers that have closed open again on {row.source}, where they had committed, in generation "
            f"{aborted.generation}."
        )
    else:
        said.append(f"Consumers were not closed yet: they stay on {row.source}.")
    return tuple(said)


def _staying(row: SwitchRow, aborted: SwitchAborted) -> tuple[str, ...]:
    said = [f"Records that have come to {row.target}: distribution goes on as before."]
    if aborted.generation is not None:
        said.append(
            f"Offsets of groups that were set on {row.target}. What they commit on {row.source} from then on "
            "follows them there, as always."
        )
    said.append(
        "The switch in the list, with its phases and who has taken it back. Another try is another switch."
    )
    return tuple(said)


def _page(services: ConsoleServices, switch: str) -> FormPage:
    """Raises NotFound."""
    with services.reading() as connection:
        row = find_switch(connection, switch)
    return FormPage(
        template="switch_abort.html",
        asks_nothing=True,
        address=f"/switches/{row.id}/-abort",
        heading=f"Abort: {row.source} to {row.target}",
        trail=[SWITCHES, (row.id, f"/switches/{row.id}")],
        verb="Abort the switch",
        back="Back to the switch",
        act=Aborting(row.id),
    )


@router.get(ABORT)
def abort_preview(switch: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """What it would do now: there is nothing to fill in before."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, switch))


@router.post(ABORT)
def abort_switch(switch: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Try it out, or take the switch back."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services, switch), fields)
