"""Forms that issue an application's password, shown once on the next page, and revoke it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import SecretStr
from sqlalchemy import Connection

from backend.changes import applications as changes
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.names.names import ApplicationName
from backend.queries.tenants import secrets_of_applications as secrets
from backend.queries.tenants.applications import ApplicationRow, find_application
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl
from backend.web.forms.shown_once import ShownOnce
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tenants.application_forms import api_of, existing_application, trail_of
from backend.web.tenants.application_page import APPLICATION, TEMPLATE, Named, address_of, application_context

NONE_YET = "has no password yet."

router = APIRouter(include_in_schema=False, route_class=PageRoute)


def _issuing(row: ApplicationRow, secrets_key: SecretStr | None) -> ShownOnce:
    name = row.full_name

    def effect(connection: Connection, _: Outcome, __: Fields) -> Effect:
        number = find_application(connection, name).credentials
        before = " The present password stops working as each cluster applies the change." if number != 1 else ""
        call = curl("POST", f"{api_of(name)}/{name.application}/credentials", version=row.version)
        return Effect(
            sentence=f"{name} will get password number {number}, which is shown once, on the next page.{before}",
            same=SameChange(None, f"treeline credentials issue {name}", call),
        )

    def page(change_request: ChangeRequest, _: Fields, password: str) -> Response:
        with change_request.services.reading() as connection:
            context = application_context(connection, change_request.viewer, name)
        return templates.page(
            TEMPLATE, {**frame(change_request.request, change_request.viewer), **context, "secret": password}
        )

    return ShownOnce(
        new=secrets.new_password,
        change=lambda given, new: changes.issue_credentials(name, new, secrets_key, version_seen(given)),
        effect=effect,
        page=page,
        place=lambda _: address_of(name),
    )


def _version(connection: Connection, name: ApplicationName) -> Fields:
    return {"version": str(find_application(connection, name).version)}


def _page(row: ApplicationRow, secrets_key: SecretStr | None) -> FormPage:
    name = row.full_name

    number = row.credentials
    has = f"has password number {number}; a new one replaces it on every cluster." if number else NONE_YET
    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{address_of(name)}/-credentials",
        heading="Issue password",
        trail=trail_of(name, existing=True),
        verb="Issue password",
        act=_issuing(row, secrets_key),
        usual=lambda connection: _version(connection, name),
        choices={
            "hint": f"{name} {has} Clients with the password can use everything that the application was granted."
        },
    )


@router.get(APPLICATION + "/-credentials")
def credentials_form(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that issues a password."""
    caller = enter(viewer, Action.MANAGE_TENANT, name.tenant)
    row = existing_application(services, name)
    return show_form(request, services, caller, _page(row, services.config.secrets_key))


@router.post(APPLICATION + "/-credentials")
def issue_credentials(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview a new password, or issue it."""
    caller = enter(viewer, Action.MANAGE_TENANT, name.tenant)
    row = existing_application(services, name)
    return answer_form(request, services, caller, _page(row, services.config.secrets_key), fields)


def _revoke_form(row: ApplicationRow) -> FormPage:
    name = row.full_name

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        call = curl("DELETE", f"{api_of(name)}/{name.application}/credentials", version=row.version)
        return Effect(
            sentence=f"Password number {row.credentials} of {name} stops working as each cluster applies the "
            "change. Clients that use it can no longer log in.",
            same=SameChange(None, f"treeline credentials revoke {name}", call),
            fields=fields_of({"Password": "none"}, {"Password": f"number {row.credentials}"}),
            notes=("Its grants stay, for the next password.",),
        )

    has = f"has password number {row.credentials}." if row.credentials else NONE_YET
    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{address_of(name)}/-revoke",
        heading="Revoke password",
        trail=trail_of(name, existing=True),
        verb="Revoke password",
        act=Command(
            lambda given: changes.revoke_credentials(name, version_seen(given)), effect, lambda _: address_of(name)
        ),
        usual=lambda connection: _version(connection, name),
        choices={"hint": f"{name} {has}"},
    )


@router.get(APPLICATION + "/-revoke")
def revoke_form(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that revokes the password."""
    caller = enter(viewer, Action.MANAGE_TENANT, name.tenant)
    return show_form(request, services, caller, _revoke_form(existing_application(services, name)))


@router.post(APPLICATION + "/-revoke")
def revoke_credentials(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the revocation of the password, or revoke it."""
    caller = enter(viewer, Action.MANAGE_TENANT, name.tenant)
    page = _revoke_form(existing_application(services, name))
    return answer_form(request, services, caller, page, fields)
