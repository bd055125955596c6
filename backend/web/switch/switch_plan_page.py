"""`/switches/plan`: the plan of a switch, and the form that starts it.

    GET     the form and, once source and target are chosen, the plan; it changes nothing, so it has an address
    POST    start the switch if the plan is unchanged and the operator typed the name of the source

A plan that has changed meanwhile is shown with its changes, and nothing is started.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.callers import STATUS
from backend.changes import switch_start
from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import DomainError, FieldError, NotFound, PlanStale, ValueInvalid
from backend.domain.switch.cluster_switch import EMERGENCY, TO_TARGET
from backend.domain.switch.switch_facts import SwitchRequest
from backend.domain.switch.switch_plan import Plan
from backend.queries.base.names_of_events import name_switches
from backend.queries.switch.switch_clients import presence_ms
from backend.queries.switch.switches import find_switch, recent_holds
from backend.switching import planning
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.form_page import ONCE
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame
from backend.web.switch.switch_decision import MOST_HOLDS, Decision
from backend.web.switch.switch_plan_view import PlanView, differences
from backend.web.switch.switch_readiness import Readiness
from backend.web.switch.switch_remedies import ADDRESS, Remedies
from backend.web.switch.switch_request_form import NAMES, choices, request_of
from backend.web.switch.switches_page import SWITCHES
from backend.web.words.names import switch_name

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST_LINES = 300
"""Limit of the plan's lines that the form keeps in order to show what changed."""


@router.get(ADDRESS)
def plan_page(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form, with the plan below if source and target are chosen."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    given = {name: request.query_params[name] for name in NAMES if name in request.query_params}
    if not given.get("reverses") and not (given.get("from") and given.get("to")):
        return _page(request, services, caller, given)
    try:
        plan = _plan(services, given)
    except DomainError as error:
        return _page(request, services, caller, given, refused=error)
    return _page(request, services, caller, given, plan)


@router.post(ADDRESS)
def start_switch(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Start the switch, once per form shown, and redirect to it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    given = {name: fields[name] for name in NAMES if name in fields}
    once = fields.get("once", "")
    if ONCE.fullmatch(once) is None:
        return RedirectResponse(f"{ADDRESS}?{urlencode(given)}", 303)
        # The switch's id is derived from the form, so that a form sent twice starts one switch.
    switch = hashlib.sha256(f"{caller.name} {once}".encode()).hexdigest()[:12]
    if _is_there(services, switch):
        return RedirectResponse(f"/switches/{switch}", 303)
    plan: Plan | None = None
    try:
        # An emergency switch does not wait for a cluster that may not answer.
        plan = _plan(services, given, asks=given.get("mode") != EMERGENCY)
        switch_start.check(plan, fields.get("digest", ""))
        left = plan.request.source
        if fields.get("confirm", "").strip() != left:
            problem = f"type {left}, the cluster that clients leave"
            raise ValueInvalid(f"The switch was not started: {problem}.", (FieldError("/confirm", problem),))
        change = switch_start.starting(plan, switch, presence_ms(services.config))
        ChangeRequest(services, request, caller).carry_out_once(change, once, fields)
    except DomainError as error:
        if _is_there(services, switch):
            # The same form was sent twice at once, and the other request was first.
            return RedirectResponse(f"/switches/{switch}", 303)
        # Query the clusters for the page that is shown again, so that it is complete.
        shown = _plan(services, given) if plan is not None and plan.request.is_emergency else plan
        return _page(request, services, caller, given, shown, refused=error, seen=_seen(fields))
    return RedirectResponse(f"/switches/{switch}", 303)


def _is_there(services: ConsoleServices, switch: str) -> bool:
    with services.reading() as connection:
        try:
            find_switch(connection, switch)
        except NotFound:
            return False
    return True


def _plan(services: ConsoleServices, given: Fields, *, asks: bool = True) -> Plan:
    with services.reading() as connection:
        switch_request = request_of(connection, given)
    return planning.make(services.reading, services.config, switch_request, datetime.now(UTC), asks=asks)


def _seen(fields: Fields) -> list[str] | None:
    """Return the lines of the plan that the operator saw; None if the form has none."""
    try:
        found = json.loads(fields.get("seen", ""))
    except ValueError:
        return None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def _page(
    request: Request,
    services: ConsoleServices,
    caller: Caller,
    given: Mapping[str, str],
    plan: Plan | None = None,
    *,
    refused: DomainError | None = None,
    seen: Sequence[str] | None = None,
) -> Response:
    with services.reading() as connection:
        options = choices(connection, given)
        holds_ms = [] if plan is None else recent_holds(connection, plan.request.source, MOST_HOLDS)
        reverses = given.get("reverses", "")
        named = name_switches(connection, [reverses] if reverses else [])
    errors: dict[str, list[str]] = {}
    for each in () if refused is None else refused.errors:
        errors.setdefault(each.pointer.lstrip("/"), []).append(each.detail)
    context = {
        "given": given,
        "options": options,
        "errors": errors,
        # A wrong confirmation is shown at its field.
        "refused": None if refused is None or "confirm" in errors else refused.detail,
        "stale": isinstance(refused, PlanStale),
        "changes": ([], []),
        "trail": [SWITCHES],
        "reversed_name": switch_name(named.get(reverses), reverses),
        "plan": None,
    }
    if plan is not None:
        context |= _of_the_plan(PlanView(plan), seen)
        readiness = Readiness(plan, given)
        context["readiness"] = readiness
        context["decision"] = Decision(readiness, holds_ms, services.config.switch_hold_seconds)
        context["again"] = Remedies(plan, given).plan_again("Recalculate plan")
    status = 200 if refused is None else STATUS[refused.kind]
    return templates.page("switch_plan.html", {**frame(request, caller), **context}, status)


def _of_the_plan(view: PlanView, seen: Sequence[str] | None) -> dict[str, Any]:
    plan, decides = view.plan, view.decides[:_MOST_LINES]
    return {
        "plan": view,
        "changes": ([], []) if seen is None else differences(seen, decides),
        # A pattern for browsers, which refuse needless escapes.
        "word": plan.request.source.replace(".", r"\."),
        "seen": json.dumps(decides),
        "once": secrets.token_urlsafe(16),
        "taken_at": datetime.fromisoformat(plan.taken_at),
        "same": _same(plan),
    }


def _same(plan: Plan) -> SameChange:
    """Return the CLI command and the request that start the same switch."""
    switch_request = plan.request
    if switch_request.reverses is not None:
        path = f"/api/v1/switches/{switch_request.reverses.switch}/reverse"
        command = f"treeline switch reverse {switch_request.reverses.switch}"
        return SameChange(None, command, curl("POST", path, {"plan_digest": plan.digest}))
    asked = {
        "from": switch_request.source,
        "to": switch_request.target,
        "tenant": switch_request.tenant,
        "instance": switch_request.instance,
        "environment": switch_request.environment,
        "zone": switch_request.zone,
        "mode": switch_request.mode,
        "drain": switch_request.drain,
        "plan_digest": plan.digest,
    }
    body = {name: value for name, value in asked.items() if value is not None}
    return SameChange(None, _command(switch_request, plan.digest), curl("POST", "/api/v1/switches", body))


def _command(switch_request: SwitchRequest, digest: str) -> str:
    """Return the command with the digest of the plan shown, so that it starts without another plan."""
    named = {
        "from": switch_request.source,
        "to": switch_request.target,
        "tenant": switch_request.tenant,
        "instance": switch_request.instance,
        "environment": switch_request.environment,
        "zone": switch_request.zone,
        "drain": None if switch_request.drain == TO_TARGET else switch_request.drain,
        "digest": digest,
    }
    words = [word for name, value in named.items() if value is not None for word in (f"--{name}", value)]
    return shlex.join(
        ["treeline", "switch", "start", *words, *(["--emergency"] if switch_request.is_emergency else [])]
    )
