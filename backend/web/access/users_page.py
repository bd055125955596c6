"""`/users`: the list of users, for viewers of the estate; creating and changing users, for admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import Response

from backend.domain.access.access import Action, Caller, Membership, Role, may, refusal
from backend.domain.names.names import is_name
from backend.queries.access import users as queries
from backend.web.access import token_form, user_forms
from backend.web.access.password_form import password_form
from backend.web.access.user_tables import TOKENS, USERS
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.form_page import answer_form
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form
from backend.web.frame.login_page import provider_of
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.requested_position import At, Past, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tables.table_query import TableParameters, TableQuery, table_query

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_READ = 10_000
USER = "/users/{user}"


def _managing(viewer: Viewer) -> Caller:
    """Return the caller if it may change users; nobody else sees these forms, so a refusal need not be a page."""
    if viewer is None:
        raise HTTPException(401, "Log in first.")
    refused = refusal(viewer, Action.MANAGE_USERS)
    if refused is not None:
        raise refused
    return viewer


Managing = Annotated[Caller, Depends(_managing)]


@router.get("/users")
def users_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show every user, now or at an earlier position."""
    return _list(request, services, enter(viewer, Action.READ_ESTATE), query, at)


@router.post("/users")
def create_user(request: Request, services: Shared, viewer: Managing, fields: Form) -> Response:
    """Preview a new user, or create it and go to its page."""
    return answer_form(request, services, viewer, user_forms.creation(), fields)


@router.get(USER)
def user_page(user: str, request: Request, services: Shared, viewer: Viewer, at: At = None) -> Response:
    """Show one user: role, memberships and tokens."""
    return _one(request, services, enter(viewer, Action.READ_ESTATE), user, at)


@router.post(USER)
def change_user(user: str, request: Request, services: Shared, viewer: Managing, fields: Form) -> Response:
    """Preview a change of role or state, or carry it out."""
    return answer_form(request, services, viewer, user_forms.change(viewer, _existing(services, user)), fields)


@router.post(USER + "/tenants")
def change_membership(user: str, request: Request, services: Shared, viewer: Managing, fields: Form) -> Response:
    """Preview a change of a membership, or carry it out."""
    return answer_form(request, services, viewer, user_forms.membership(viewer, _existing(services, user)), fields)


@router.post(USER + "/identity")
def change_identity(user: str, request: Request, services: Shared, viewer: Managing, fields: Form) -> Response:
    """Preview a change of the user's identity at the provider, or carry it out."""
    provider = provider_of(request)
    if provider is None:
        raise HTTPException(404, "No OpenID provider is configured.")
    with services.reading() as connection:
        name, was = queries.find_user(connection, user).name, queries.identity_of(connection, user)
    page = user_forms.identity(name, provider.client.issuer, was[1] if was else None)
    return answer_form(request, services, viewer, page, fields)


@router.post(USER + "/password")
def set_password(user: str, request: Request, services: Shared, viewer: Managing, fields: Form) -> Response:
    """Preview a new password of a user, or set it."""
    name = _existing(services, user).name
    done = f"{name} has a new password; all sessions of {name} ended."

    def shown(_: ChangeRequest) -> Response:
        return _one(request, services, viewer, name, done=done)

    page = password_form(name, user_forms.address_of(name), user_forms.trail_of(name), shown, own=False)
    return answer_form(request, services, viewer, page, fields)


@router.post(USER + "/tokens")
def issue_token(user: str, request: Request, services: Shared, viewer: Managing, fields: Form) -> Response:
    """Preview a new token of a user, or issue it and show it this once."""
    name = _existing(services, user).name

    def shown(_: ChangeRequest, __: Fields, secret: str) -> Response:
        return _one(request, services, viewer, name, secret=secret)

    page = token_form.issuing(name, user_forms.address_of(name), user_forms.trail_of(name), shown)
    return answer_form(request, services, viewer, page, fields)


@router.post(USER + "/tokens/{token}/revoke")
def revoke_token(
    user: str, token: str, request: Request, services: Shared, viewer: Managing, fields: Form
) -> Response:
    """Preview the revocation of a token, or revoke it."""
    name = _existing(services, user).name
    page = token_form.revocation(name, token, user_forms.address_of(name), user_forms.trail_of(name))
    return answer_form(request, services, viewer, page, fields)


def _existing(services: Shared, user: str) -> queries.UserRow:
    """Return the user. Raises NotFound."""
    with services.reading() as connection:
        return queries.find_user(connection, user)


def _list(request: Request, services: Shared, viewer: Caller, query: TableQuery, at: str | None) -> Response:
    with services.reading() as connection:
        position, past = requested_position(connection, viewer, at)
        found = queries.list_users(connection, position, limit=MOST_READ + 1)
    context = {"past": past, "table": USERS.view(found[:MOST_READ], query), "more": len(found) > MOST_READ}
    return templates.page("users.html", {**_common(request, viewer, past), **context})


def _one(
    request: Request,
    services: Shared,
    viewer: Caller,
    user: str,
    at: str | None = None,
    *,
    done: str = "",
    secret: str = "",
) -> Response:
    with services.reading() as connection:
        position, past = requested_position(connection, viewer, at)
        row = queries.get_user(connection, user, position) if is_name(user) else None
        tokens = queries.list_tokens(connection, user, position) if row else []
        identity = queries.identity_of(connection, user) if row else None
    if row is None:
        text = f"There is no user {user[:100]}."
        message = {"title": "No such user", "message": text, "way": ("/users", "Users")}
        return templates.page("message.html", {**frame(request, viewer), **message}, 404)
    # A form that was sent shows this page as its answer: links lead to the page.
    place = table_query(request).of(user_forms.address_of(row.name))
    shown: dict[str, Any] = {"past": past, "user": row, "tokens": TOKENS.view(tokens, place)}
    provider = provider_of(request)
    shown |= {"identity": identity, "provider": None if provider is None else provider.client.name}
    notice = {"done": done, "secret": secret, "place": user_forms.address_of(row.name)}
    return templates.page("user.html", {**_common(request, viewer, past), **shown, **notice})


def _common(request: Request, viewer: Caller, past: Past | None) -> dict[str, Any]:
    manages = past is None and may(viewer, Action.MANAGE_USERS)
    return {**frame(request, viewer), "manages": manages, "roles": list(Role), "memberships": list(Membership)}
