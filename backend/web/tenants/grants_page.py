"""`/tenants/{tenant}/-grants`: grants of applications, of any tenant, on a tenant's streams."""

from __future__ import annotations

import shlex
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import applications as changes
from backend.changes.applications import ApplicationChange
from backend.dispatch import Outcome
from backend.domain.access.access import Action, may
from backend.domain.tenants.application import CONSUME, GrantState
from backend.domain.tenants.application_commands import DECISIONS, GRANT, not_requested
from backend.domain.tenants.application_records import LONGEST_REASON
from backend.queries.tenants.applications import GrantRow, list_grants
from backend.queries.tenants.tenants import find_tenant
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tenants.tenant_forms import TENANTS
from backend.web.tenants.tenants_page import TENANT

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 500
_WHICH = ("application", "stream", "operation")
Text = Annotated[str, Query(max_length=1000)]


@router.get(TENANT + "/-grants")
def grants_page(tenant: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show all grants on the tenant's streams, pending requests first."""
    caller = enter(viewer, Action.READ_TENANT, tenant)
    with services.reading() as connection:
        position, past = requested_position(connection, caller, at)
        find_tenant(connection, tenant, position)
        rows = list_grants(connection, tenant, position)
    rows = sorted(rows, key=lambda row: row.state != GrantState.REQUESTED)
    context = {
        "past": past,
        "tenant": tenant,
        "here": f"/tenants/{tenant}/-grants",
        "grants": rows[:MOST_SHOWN],
        "more": len(rows) > MOST_SHOWN,
        "may_decide": past is None and may(caller, Action.DECIDE_ACCESS, tenant),
    }
    return templates.page("grants.html", {**frame(request, caller), **context})


def _find(connection: Connection, tenant: str, given: Fields) -> GrantRow:
    application, stream, operation = wanted = tuple(given.get(name, "") for name in _WHICH)
    for row in list_grants(connection, tenant):
        if (row.principal, row.stream, row.operation) == wanted:
            return row
    raise not_requested(application, operation, stream)


def _decision_form(tenant: str, asked_for: Fields) -> FormPage:
    def change(given: Fields) -> ApplicationChange:
        reason = given.get("reason", "").strip()[:LONGEST_REASON] or None
        application, stream, operation = (given.get(name, "") for name in _WHICH)
        return changes.decide_access(tenant, application, stream, operation, given.get("decision", ""), reason)

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        row = _find(connection, tenant, given)
        body = {name: given[name] for name in (*_WHICH, "decision", "reason") if given.get(name, "").strip()}
        reason = f" --reason {shlex.quote(given['reason'])}" if "reason" in body else ""
        command = f"treeline {given['decision']} {row.principal} {row.stream} {row.operation}{reason}"
        way = "consume from" if row.operation == CONSUME else "produce to"
        may_then = "may" if row.state == GrantState.GRANTED else "may not"
        return Effect(
            sentence=f"{row.principal} {may_then} {way} {row.stream} from now on.",
            same=SameChange(None, command, curl("POST", f"/api/v1/tenants/{tenant}/grants", body)),
            fields=fields_of(
                {"State": str(row.state), "Requested by": row.requested_by, "Reason": row.reason or "–"}
            ),
            nothing=not outcome.events,
        )

    here = f"/tenants/{tenant}/-grants"
    return FormPage(
        template="grant_form.html",
        address=f"{here}/-decide",
        heading="Decide on access",
        trail=[TENANTS, (tenant, f"/tenants/{tenant}"), ("Grants", here)],
        verb="Save decision",
        empty="Choose a decision to see its effect.",
        act=Command(change, effect, lambda _: here),
        usual=lambda connection: {"decision": _usual_decision(_find(connection, tenant, asked_for)), **asked_for},
        choices={"decisions": DECISIONS, "longest": LONGEST_REASON},
    )


def _usual_decision(row: GrantRow) -> str:
    return DECISIONS[-1] if row.state == GrantState.GRANTED else GRANT


@router.get(TENANT + "/-grants/-decide")
def decision_form(
    tenant: str,
    request: Request,
    services: Shared,
    viewer: Viewer,
    application: Text = "",
    stream: Text = "",
    operation: Text = "",
) -> Response:
    """Show the form that decides on one request."""
    caller = enter(viewer, Action.DECIDE_ACCESS, tenant)
    given = {"application": application, "stream": stream, "operation": operation}
    return show_form(request, services, caller, _decision_form(tenant, given))


@router.post(TENANT + "/-grants/-decide")
def decide(tenant: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview a decision, or carry it out."""
    caller = enter(viewer, Action.DECIDE_ACCESS, tenant)
    return answer_form(request, services, caller, _decision_form(tenant, fields), fields)
