"""Forms of tenants, instances and environments; each follows the steps of `form_page.py`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import tenants as changes
from backend.changes.tenants import TenantChange
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.tenants.tenant import DEFAULT_MARGIN_SECONDS, DEFAULT_OFFSET_MODE, OFFSET_MODES
from backend.queries.tenants.tenants import EnvironmentRow, find_environment, find_instance, find_tenant
from backend.queries.tree.trees import MAIN, tree_names
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import api_path, curl, declared
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer
from backend.web.tenants.tenants_page import ENVIRONMENT, INSTANCE, TENANT
from backend.web.words.units import whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

TENANTS = ("Tenants", "/tenants")
ALLOWED, REFUSED = "allowed", "refused"


def _tenant_form() -> FormPage:
    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        name = find_tenant(connection, given["name"]).name
        call = curl("POST", api_path([name], collection=True), {"name": name})
        sentence = f"The tenant {name} will be created. Next, create an instance for it."
        return Effect(sentence=sentence, same=declared([name], {}, call), fields=fields_of({"Tenant": name}))

    return FormPage(
        template="tenant_form.html",
        address="/tenants/-new",
        heading="Create tenant",
        trail=[TENANTS],
        verb="Create tenant",
        act=Command(
            lambda given: changes.create_tenant(given.get("name", "")),
            effect,
            lambda given: f"/tenants/{given['name']}",
        ),
        empty="Enter a name to see whether it is available.",
    )


@router.get("/tenants/-new")
def new_tenant(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that creates a tenant."""
    return show_form(request, services, enter(viewer, Action.CHANGE_ESTATE), _tenant_form())


@router.post("/tenants/-new")
def create_tenant(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the tenant, or create it."""
    return answer_form(request, services, enter(viewer, Action.CHANGE_ESTATE), _tenant_form(), fields)


def _instance_form(tenant: str, trees: list[str]) -> FormPage:
    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        row = find_instance(connection, tenant, given["name"])
        place = [tenant, row.name]
        call = curl("POST", api_path(place, collection=True), {"name": row.name, "tree": row.tree})
        return Effect(
            sentence=f"{tenant} will have an instance {row.name}; what is in it lives on the clusters of the tree "
            f"{row.tree}.",
            same=declared(place, {"tree": row.tree}, call),
            fields=fields_of({"Instance": row.name, "Tree": row.tree}),
        )

    return FormPage(
        template="instance_form.html",
        address=f"/tenants/{tenant}/-new",
        heading="Create instance",
        trail=[TENANTS, (tenant, f"/tenants/{tenant}")],
        verb="Create instance",
        act=Command(
            lambda given: changes.create_instance(tenant, given.get("name", ""), given.get("tree", "")),
            effect,
            lambda given: f"/tenants/{tenant}#{given['name']}",
        ),
        usual=lambda _: {"tree": MAIN},
        choices={"trees": trees},
        empty="Enter a name to see whether it is available.",
    )


def _trees(services: Shared, tenant: str) -> list[str]:
    with services.reading() as connection:
        find_tenant(connection, tenant)
        return sorted(tree_names(connection))


@router.get(TENANT + "/-new")
def new_instance(tenant: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that creates an instance of a tenant."""
    caller = enter(viewer, Action.MANAGE_TENANT, tenant)
    return show_form(request, services, caller, _instance_form(tenant, _trees(services, tenant)))


@router.post(TENANT + "/-new")
def create_instance(tenant: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the instance, or create it."""
    caller = enter(viewer, Action.MANAGE_TENANT, tenant)
    return answer_form(request, services, caller, _instance_form(tenant, _trees(services, tenant)), fields)


# --- environments


def _shown(row: EnvironmentRow) -> dict[str, str]:
    names = ALLOWED if row.record_name_subjects else REFUSED
    return {
        "Margin": f"{row.margin_seconds:,} s",
        "Offset mode": row.offset_mode,
        "Subjects by record name": names,
    }


def _body(row: EnvironmentRow) -> dict[str, Any]:
    return {
        "margin_seconds": row.margin_seconds,
        "offset_mode": row.offset_mode,
        "record_name_subjects": row.record_name_subjects,
    }


def _new_environment(tenant: str, instance: str) -> FormPage:
    def change(given: Fields) -> TenantChange:
        return changes.create_environment(
            tenant,
            instance,
            given.get("name", ""),
            margin_seconds=_margin(given),
            offset_mode=given.get("offset_mode", ""),
            record_name_subjects=_record_names(given),
        )

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        row = find_environment(connection, tenant, instance, given["name"])
        place = [tenant, instance, row.name]
        call = curl("POST", api_path(place, collection=True), {"name": row.name, **_body(row)})
        return Effect(
            sentence=f"{tenant}/{instance} will have an environment {row.name}, ready for streams.",
            same=declared(place, _body(row), call),
            fields=fields_of({"Environment": row.name, **_shown(row)}),
        )

    return FormPage(
        template="environment_form.html",
        address=f"/tenants/{tenant}/{instance}/-new",
        heading="Create environment",
        trail=[TENANTS, (tenant, f"/tenants/{tenant}"), (instance, f"/tenants/{tenant}#{instance}")],
        verb="Create environment",
        act=Command(change, effect, lambda given: f"/tenants/{tenant}/{instance}/{given['name']}"),
        usual=lambda _: {
            "margin_seconds": str(DEFAULT_MARGIN_SECONDS),
            "offset_mode": DEFAULT_OFFSET_MODE,
            "record_name_subjects": ALLOWED,
        },
        choices={"modes": OFFSET_MODES, "is_new": True},
        empty="Enter a name to see whether it is available.",
    )


def _margin(given: Fields) -> int:
    return whole_number(given.get("margin_seconds", ""), "/margin_seconds")


def _record_names(given: Fields) -> bool:
    said = given.get("record_name_subjects", "")
    if said not in (ALLOWED, REFUSED):
        detail = f"must be {ALLOWED} or {REFUSED}"
        raise ValueInvalid(f"record_name_subjects {detail}", (FieldError("/record_name_subjects", detail),))
    return said == ALLOWED


@router.get(INSTANCE + "/-new")
def new_environment(tenant: str, instance: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that creates an environment of an instance."""
    caller = enter(viewer, Action.MANAGE_TENANT, tenant)
    with services.reading() as connection:
        find_instance(connection, tenant, instance)
    return show_form(request, services, caller, _new_environment(tenant, instance))


@router.post(INSTANCE + "/-new")
def create_environment(
    tenant: str, instance: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the environment, or create it."""
    caller = enter(viewer, Action.MANAGE_TENANT, tenant)
    return answer_form(request, services, caller, _new_environment(tenant, instance), fields)


def _environment_form(before: EnvironmentRow) -> FormPage:
    tenant, instance, name = place = (before.tenant, before.instance, before.name)

    def change(given: Fields) -> TenantChange:
        return changes.change_environment(
            tenant,
            instance,
            name,
            margin_seconds=_margin(given),
            offset_mode=given.get("offset_mode", ""),
            record_name_subjects=_record_names(given),
            match=version_seen(given),
        )

    def effect(connection: Connection, outcome: Outcome, _: Fields) -> Effect:
        after = _body(find_environment(connection, tenant, instance, name))
        changed = {field: value for field, value in after.items() if value != _body(before)[field]}
        row = find_environment(connection, tenant, instance, name)
        return Effect(
            sentence=f"Offsets of groups of {tenant}/{instance}/{name} will be translated by these settings."
            if outcome.events
            else "Nothing would change: these are the present settings.",
            same=declared(place, changed, curl("PATCH", api_path(place), changed, version=before.version)),
            fields=fields_of(_shown(row), _shown(before)),
            nothing=not outcome.events,
        )

    def usual(connection: Connection) -> Fields:
        row = find_environment(connection, tenant, instance, name)
        return {
            "version": str(row.version),
            "margin_seconds": str(row.margin_seconds),
            "offset_mode": row.offset_mode,
            "record_name_subjects": ALLOWED if row.record_name_subjects else REFUSED,
        }

    here = f"/tenants/{tenant}/{instance}/{name}"
    return FormPage(
        template="environment_form.html",
        address=f"{here}/-change",
        heading=f"Change {name}",
        trail=[TENANTS, (tenant, f"/tenants/{tenant}"), (instance, f"/tenants/{tenant}#{instance}"), (name, here)],
        verb="Change environment",
        act=Command(change, effect, lambda _: here),
        usual=usual,
        choices={"modes": OFFSET_MODES, "is_new": False},
        empty="Change a field to see the effect.",
    )


def _existing(services: Shared, tenant: str, instance: str, environment: str) -> EnvironmentRow:
    with services.reading() as connection:
        return find_environment(connection, tenant, instance, environment)


@router.get(ENVIRONMENT + "/-change")
def environment_form(
    tenant: str, instance: str, environment: str, request: Request, services: Shared, viewer: Viewer
) -> Response:
    """Show the form that changes an environment."""
    caller = enter(viewer, Action.MANAGE_TENANT, tenant)
    return show_form(
        request, services, caller, _environment_form(_existing(services, tenant, instance, environment))
    )


@router.post(ENVIRONMENT + "/-change")
def change_environment(
    tenant: str, instance: str, environment: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the change of an environment, or carry it out."""
    caller = enter(viewer, Action.MANAGE_TENANT, tenant)
    page = _environment_form(_existing(services, tenant, instance, environment))
    return answer_form(request, services, caller, page, fields)
