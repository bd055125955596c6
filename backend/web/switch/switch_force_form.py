"""`/switches/{id}/-force`: continue a switch without clients that do not answer.

The form names the clients, and the operator types their number. Only named clients are forced: one that appeared
since then is shown first.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.callers import STATUS
from backend.changes.change import Change
from backend.changes.switches import event_stream
from backend.deciders import SWITCH as DECIDER
from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import DomainError, FieldError, ValueInvalid
from backend.domain.switch.cluster_switch import Switch
from backend.domain.switch.switch_commands import Force, SwitchCommand
from backend.queries.switch.switch_clients import clients_of, missing
from backend.queries.switch.switches import find_switch
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.form_page import ONCE
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.switch.switch_page import SWITCH, view_of
from backend.web.switch.switches_page import SWITCHES

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get(SWITCH + "/-force")
def force_form(switch: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the clients that the switch waits for now, and the form."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return _form(request, services, caller, switch)


@router.post(SWITCH + "/-force")
def force_switch(switch: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Stop waiting for the named clients."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    try:
        named = _named(fields)
        if fields.get("confirm", "").strip() != str(len(named)):
            problem = f"type {len(named)}, the number of clients below, to continue without them"
            raise ValueInvalid(problem, (FieldError("/confirm", problem),))
        once = fields.get("once", "")
        if ONCE.fullmatch(once) is None:
            raise ValueInvalid("this form is incomplete; reload the page and submit it again")
        change_request = ChangeRequest(services, request, caller)
        change_request.carry_out_once(_forcing(services, switch, named), once, fields)
    except DomainError as error:
        return _form(request, services, caller, switch, refused=error, status=STATUS[error.kind])
    return RedirectResponse(f"/switches/{switch}", 303)


def _forcing(
    services: ConsoleServices, switch: str, named: frozenset[str]
) -> Change[Switch | None, SwitchCommand]:
    def build(connection: Connection) -> Force:
        row = find_switch(connection, switch)
        waiting = missing(row, clients_of(connection, row, services.config), services.config)
        # A client that has answered meanwhile is no risk, so the report does not name it.
        return Force(clients=tuple(sorted(named.intersection(waiting))))

    return Change(DECIDER, event_stream(switch), build)


def _named(fields: Fields) -> frozenset[str]:
    try:
        found = json.loads(fields.get("clients", "[]"))
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) and "\x00" not in each for each in found):
        raise ValueInvalid("this form is incomplete; reload the page and submit it again")
    return frozenset(found)


def _form(
    request: Request,
    services: ConsoleServices,
    caller: Caller,
    switch: str,
    *,
    refused: DomainError | None = None,
    status: int = 200,
) -> Response:
    with services.reading() as connection:
        view = view_of(connection, services, switch)
    errors = {} if refused is None else {each.pointer.lstrip("/"): [each.detail] for each in refused.errors}
    context = {
        "view": view,
        "trail": [SWITCHES, (view.name, f"/switches/{view.row.id}")],
        "named": json.dumps(sorted(each.client_id for each in view.waiting)),
        "once": secrets.token_urlsafe(16),
        "refused": None if refused is None else refused.detail,
        "errors": errors,
        "seen_at": datetime.now(UTC),
    }
    return templates.page("switch_force.html", {**frame(request, caller), **context}, status)
