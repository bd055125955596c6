"""`/tree/-primary`: the form that makes another cluster the primary, the only writer of schemas."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import trees as changes
from backend.changes.trees import existing_tree
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.tree import tree_shape
from backend.domain.tree.primary_move import SKIPPED_IDS
from backend.eventlog.recorded import RecordedEvent
from backend.queries.history.operations import operation_id
from backend.web.distribution.distributor_forms import API, NO_CHANGE, TREE, tree_seen
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PRIMARY = "/tree/-primary"


def _primary_page(services: ConsoleServices) -> FormPage:
    with services.reading() as connection:
        tree = existing_tree(connection)
    present, moving = tree.primary_cluster, tree.move
    others = [name for name in tree_shape.leaves(tree.shape) if name != present]
    stays = f"{present} (present primary)" if moving is None else f"{present}: cancel the move to {moving.cluster}"

    def takes_over(given: Fields) -> bool:
        return given.get("take_over") == "yes"

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        wanted, dead = given.get("cluster", ""), takes_over(given)
        body = {"cluster": wanted, "take_over": dead}
        command = f"treeline schemas move-primary {wanted}{' --take-over' if dead else ''}"
        note = "Until then the present primary accepts schemas; during the change, writes are refused briefly."
        if dead:
            note = f"{present} is not waited for: {SKIPPED_IDS:,} ids that it may have assigned are skipped."
        begins = f"{wanted} will be the primary, once it has all schemas of {present}."
        ends = f"{present} stays the primary."
        return Effect(
            sentence=(ends if wanted == present else begins) if outcome.events else NO_CHANGE,
            same=SameChange(None, command, curl("PUT", f"{API}/primary", body, version=tree.version)),
            fields=fields_of({"Primary": wanted}, {"Primary": present}),
            notes=(note,) if outcome.events and wanted != present else (),
            nothing=not outcome.events,
        )

    def begun(event: RecordedEvent) -> str | None:
        return operation_id(event) if event.name == "PrimaryMoveBegun" else None

    return FormPage(
        template="primary_form.html",
        address=PRIMARY,
        heading="Move primary",
        trail=[TREE],
        verb="Move primary" if moving is None else "Apply",
        act=Command(
            lambda given: changes.move_primary(given.get("cluster", ""), takes_over(given), tree_seen(given)),
            effect,
            lambda _: "/tree",
            begun,
        ),
        usual=lambda connection: {"cluster": present, "version": str(existing_tree(connection).version)},
        empty="Choose another primary to see the preview.",
        choices={
            "leaves": [(present, stays), *((name, name) for name in others)],
            "present": present,
            "under_way": None if moving is None else moving.cluster,
        },
    )


@router.get(PRIMARY)
def primary_form(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that moves the primary."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _primary_page(services))


@router.post(PRIMARY)
def move_primary(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the move, or begin it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _primary_page(services), fields)
