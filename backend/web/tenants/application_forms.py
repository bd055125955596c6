"""Forms of applications: declare, change, delete; each follows the steps of `form_page.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import applications as changes
from backend.changes.applications import ApplicationChange
from backend.dispatch import Outcome
from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.limits import refuse
from backend.domain.names.names import ApplicationName
from backend.domain.tenants.application import CONSUME, PRODUCE, GrantState
from backend.domain.tenants.application_commands import FIELDS
from backend.queries.tenants.applications import ApplicationRow, find_application
from backend.queries.tenants.tenants import find_environment
from backend.web.forms.effect import Effect, fields_of, listed
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl, yaml_of
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.tenants.application_page import APPLICATION, APPLICATIONS, Named, address_of
from backend.web.tenants.application_view import application_view
from backend.web.tenants.tenant_forms import TENANTS
from backend.web.words.field_words import QUOTAS
from backend.web.words.figures import counted
from backend.web.words.units import whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_LISTS = ("groups", "produces", "consumes")


def trail_of(name: ApplicationName, *, existing: bool) -> list[tuple[str, str]]:
    """Return the pages above an application's forms."""
    tenant = f"/tenants/{name.tenant}"
    environment = f"{tenant}/{name.instance}/{name.environment}"
    places = [TENANTS, (name.tenant, tenant), (name.instance, f"{tenant}#{name.instance}")]
    own = [(name.application, address_of(name))] if existing else []
    return [*places, (name.environment, environment), *own]


# --- what the form says


def _lists(given: Fields) -> dict[str, list[str]]:
    return {name: given.get(name, "").split() for name in _LISTS}


def _quotas(given: Fields) -> dict[str, int | None]:
    """Return the quotas of the form; None for an empty field. Raises ValueInvalid."""
    found: dict[str, int | None] = {}
    errors: list[FieldError] = []
    for name in QUOTAS:
        text = given.get(name, "").strip()
        try:
            found[name] = whole_number(text, f"/{name}") if text else None
        except ValueInvalid as error:
            errors += error.errors
    refuse(errors)
    return found


def _as_given(row: ApplicationRow) -> Fields:
    asked = {operation: [g.stream for g in row.grants if g.operation == operation] for operation in FIELDS}
    return {
        "groups": " ".join(row.groups),
        "produces": "\n".join(asked[PRODUCE]),
        "consumes": "\n".join(asked[CONSUME]),
        **{name: str(getattr(row, name) or "") for name in QUOTAS},
    }


def _shown(row: ApplicationRow) -> dict[str, str]:
    def asked(operation: str) -> str:
        return ", ".join(f"{g.stream} ({g.state})" for g in row.grants if g.operation == operation) or "–"

    return {
        "Groups": ", ".join(row.groups) or "–",
        "Produces to": asked(PRODUCE),
        "Consumes from": asked(CONSUME),
        **{shown: f"{getattr(row, name) or 'no limit'}" for name, shown in QUOTAS.items()},
    }


def _sentence(row: ApplicationRow, what: str) -> str:
    waiting = sum(grant.state == GrantState.REQUESTED for grant in row.grants)
    open_now = sum(grant.state == GrantState.GRANTED for grant in row.grants)
    after = f"; {counted(waiting, 'request')} for the streams' owners to decide" if waiting else ""
    return f"{row.principal} {what}: {counted(open_now, 'grant')} in force{after}."


def _due(row: ApplicationRow) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((each.cluster, each.due) for each in application_view(row).clusters)


def _same(name: ApplicationName, content: Mapping[str, Any], call: str) -> SameChange:
    environment = {"applications": {name.application: dict(content)}}
    text = yaml_of([name.tenant, name.instance, name.environment], environment)
    file = f"{name.application}.yaml"
    return SameChange(text, f"treeline diff -f {file}\ntreeline apply -f {file}", call)


def api_of(name: ApplicationName) -> str:
    """Return the API's path of the environment's applications."""
    below = f"instances/{name.instance}/environments/{name.environment}/applications"
    return f"/api/v1/tenants/{name.tenant}/{below}"


# --- declare


def _new_application(caller: Caller, tenant: str, instance: str, environment: str) -> FormPage:
    def named(given: Fields) -> ApplicationName:
        return ApplicationName(tenant, instance, environment, given.get("name", ""))

    def change(given: Fields) -> ApplicationChange:
        lists = _lists(given)
        return changes.declare_application(
            named(given),
            caller,
            groups=lists["groups"] or None,
            produces=lists["produces"],
            consumes=lists["consumes"],
            quotas=_quotas(given),
        )

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        row = find_application(connection, named(given))
        quotas = {name: value for name, value in _quotas(given).items() if value is not None}
        body = {**{name: each for name, each in _lists(given).items() if each}, **quotas}
        call = curl("POST", api_of(row.full_name), {"name": row.name, **body})
        return Effect(
            sentence=_sentence(row, "can be declared"),
            same=_same(row.full_name, body, call),
            fields=fields_of({"Application": row.name, **_shown(row)}),
            due=_due(row),
        )

    here = ApplicationName(tenant, instance, environment, "-new")
    return FormPage(
        template="application_form.html",
        address=address_of(here),
        heading="Declare application",
        trail=trail_of(here, existing=False),
        verb="Declare application",
        act=Command(change, effect, lambda given: address_of(named(given))),
        choices={"quotas": QUOTAS, "is_new": True},
        empty="Enter a name to see whether it is available, and which access the application would get.",
    )


@router.get(APPLICATIONS + "/-new")
def new_application(
    tenant: str, instance: str, environment: str, request: Request, services: Shared, viewer: Viewer
) -> Response:
    """Show the form that declares an application."""
    caller = enter(viewer, Action.DECLARE_STREAMS, tenant)
    with services.reading() as connection:
        find_environment(connection, tenant, instance, environment)
    return show_form(request, services, caller, _new_application(caller, tenant, instance, environment))


@router.post(APPLICATIONS + "/-new")
def declare_application(
    tenant: str, instance: str, environment: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the application, or declare it."""
    caller = enter(viewer, Action.DECLARE_STREAMS, tenant)
    page = _new_application(caller, tenant, instance, environment)
    return answer_form(request, services, caller, page, fields)


# --- change


def _application_form(caller: Caller, before: ApplicationRow) -> FormPage:
    name = before.full_name

    def change(given: Fields) -> ApplicationChange:
        return changes.change_application(
            name, caller, **_lists(given), quotas=_quotas(given), match=version_seen(given)
        )

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        row = find_application(connection, name)
        body = {**_lists(given), **_quotas(given)}
        call = curl("PATCH", f"{api_of(name)}/{name.application}", body, version=before.version)
        nothing = "Nothing would change: these are the present settings."
        return Effect(
            sentence=_sentence(row, "will have these settings") if outcome.events else nothing,
            same=_same(name, {key: value for key, value in body.items() if value is not None}, call),
            fields=fields_of(_shown(row), _shown(before)),
            due=_due(row),
            nothing=not outcome.events,
        )

    def usual(connection: Connection) -> Fields:
        row = find_application(connection, name)
        return {"version": str(row.version), **_as_given(row)}

    return FormPage(
        template="application_form.html",
        address=f"{address_of(name)}/-change",
        heading=f"Change {name.application}",
        trail=trail_of(name, existing=True),
        verb="Change application",
        act=Command(change, effect, lambda _: address_of(name)),
        usual=usual,
        choices={"quotas": QUOTAS, "is_new": False},
    )


def existing_application(services: ConsoleServices, name: ApplicationName) -> ApplicationRow:
    """Return the application as it is now. Raises NotFound."""
    with services.reading() as connection:
        return find_application(connection, name)


@router.get(APPLICATION + "/-change")
def application_form(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that changes an application."""
    caller = enter(viewer, Action.DECLARE_STREAMS, name.tenant)
    page = _application_form(caller, existing_application(services, name))
    return show_form(request, services, caller, page)


@router.post(APPLICATION + "/-change")
def change_application(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the change of an application, or carry it out."""
    caller = enter(viewer, Action.DECLARE_STREAMS, name.tenant)
    page = _application_form(caller, existing_application(services, name))
    return answer_form(request, services, caller, page, fields)


# --- delete


def _delete_form(before: ApplicationRow) -> FormPage:
    name = before.full_name

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        where = (
            f"its access is removed from {listed(before.applied)}"
            if before.applied
            else "it has no access to remove"
        )
        asked = len({grant.stream for grant in before.grants})
        grants = f"its grants for {counted(asked, 'stream')} end" if asked else "it has no grants"
        password = "its password stops working" if before.credentials else "it has no password"
        after = dict.fromkeys(_shown(before), "–")
        call = curl("DELETE", f"{api_of(name)}/{name.application}", version=before.version)
        return Effect(
            sentence=f"{name} will be deleted: {where}, {grants}, {password}. Clients that log in "
            "with it lose their access.",
            same=SameChange(None, f"treeline delete application {name}", call),
            fields=fields_of(after, _shown(before)),
            notes=("Streams and their records stay. If it is declared again, it must request its streams again.",),
        )

    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{address_of(name)}/-delete",
        heading=f"Delete {name.application}",
        trail=trail_of(name, existing=True),
        verb="Delete application",
        act=Command(
            lambda given: changes.delete_application(name, version_seen(given)),
            effect,
            lambda _: address_of(name).rpartition("/-applications")[0],
        ),
        usual=lambda connection: {"version": str(find_application(connection, name).version)},
        choices={"hint": f"This deletes {name} with its grants, its password, and its access on every cluster."},
    )


@router.get(APPLICATION + "/-delete")
def delete_form(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that deletes an application."""
    caller = enter(viewer, Action.DECLARE_STREAMS, name.tenant)
    return show_form(request, services, caller, _delete_form(existing_application(services, name)))


@router.post(APPLICATION + "/-delete")
def delete_application(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the deletion of an application, or delete it."""
    caller = enter(viewer, Action.DECLARE_STREAMS, name.tenant)
    page = _delete_form(existing_application(services, name))
    return answer_form(request, services, caller, page, fields)
