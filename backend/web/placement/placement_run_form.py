"""`/placements/{id}/-apply` and `/-say`: apply a placement, pause, resume, cancel and roll back."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.callers import STATUS
from backend.changes import placements as changes
from backend.deciders import PLACEMENT as DECIDER
from backend.dispatch import Directed
from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import DomainError, FieldError, ValueInvalid
from backend.domain.placement.placement_runs import Cancel, NamedLimits, Pause, PlacementRunCommand, Resume
from backend.eventlog.recorded import Metadata
from backend.queries.placement.placements import find_placement
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.placement.placement_page import PLACEMENT, shown_page
from backend.web.placement.placement_run_view import NO_THROTTLE
from backend.web.words.units import size_bytes, whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_ACTIONS: dict[str, PlacementRunCommand] = {"pause": Pause(), "resume": Resume(), "cancel": Cancel()}


@router.post(PLACEMENT + "/-apply")
def apply_placement(placement: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Apply the placement if the cluster's name was typed."""
    caller = enter(viewer, Action.CHANGE_ESTATE)

    def build(connection: Connection) -> PlacementRunCommand:
        cluster = find_placement(connection, placement).cluster
        if fields.get("confirm", "").strip() != cluster:
            problem = f"type the name of the cluster, {cluster}, to confirm"
            raise ValueInvalid(problem, (FieldError("/confirm", problem),))
        return changes.start_applying(connection, fields.get("digest", ""), _limits(fields))

    return _carry_out(request, services, caller, placement, build)


@router.post(PLACEMENT + "/-say")
def say_to_placement(placement: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Pause, resume, cancel or roll back the placement."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    action = fields.get("word", "")

    def build(connection: Connection) -> PlacementRunCommand:
        if action == "rollback":
            return changes.start_rollback(connection, {})
        if action not in _ACTIONS:
            raise ValueInvalid("unknown action: reload the page and try again")
        return _ACTIONS[action]

    return _carry_out(request, services, caller, placement, build)


def _limits(fields: Fields) -> NamedLimits:
    """Return the limits that were changed in the form. Raises ValueInvalid.

    Unchanged ones are not sent, since they may have been changed elsewhere since the form was rendered. The form
    does not have the limit of concurrent partitions.
    """
    limits: NamedLimits = {}
    rate, shown = (fields.get(name, "").strip() for name in ("bytes_per_second", "shown_bytes_per_second"))
    if rate != shown:
        limits["bytes_per_second"] = None if rate in ("", NO_THROTTLE) else size_bytes(rate, "/bytes_per_second")
    moves, shown = (fields.get(name, "").strip() for name in ("moves_per_broker", "shown_moves_per_broker"))
    if moves and moves != shown:
        limits["moves_per_broker"] = whole_number(moves, "/moves_per_broker")
    return limits


def _carry_out(
    request: Request, services: ConsoleServices, caller: Caller, placement: str, build: changes.BuildRun
) -> Response:
    metadata = Metadata(actor=caller.name, request_id=request.state.request_id)

    def directed(connection: Connection) -> list[Directed]:
        find_placement(connection, placement)
        return [Directed(DECIDER, changes.event_stream(placement), build(connection), metadata)]

    try:
        services.dispatcher.execute_many(directed, time=datetime.now(UTC))
    except DomainError as error:
        status = STATUS[error.kind]
        return shown_page(request, services, caller, placement, refused=error.detail, status=status)
    return RedirectResponse(f"/placements/{placement}", 303)
