"""`/account`: who one is; one's own tokens and password.

What a token opened ends with the token: so a browser that was logged in by a link that was made with a token may
neither issue tokens nor set a password. Those who logged in by password may.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.changes import users as changes
from backend.domain.access import ADMIN_NAME, Action, Caller
from backend.domain.errors import DomainError, NotAllowed
from backend.queries import login as queries_of_login
from backend.queries import logins, secrets
from backend.queries import users as queries
from backend.queries.login import SESSION_COOKIE
from backend.queries.logins import LoginKind
from backend.web import templates, user_forms
from backend.web.asked import Asked
from backend.web.form_page import answer_form
from backend.web.forms import Fields, Form
from backend.web.login_page import login_page
from backend.web.pages import entering
from backend.web.services import Shared, Viewer, frame
from backend.web.sessions import provenance
from backend.web.token_form import issue_from_form

router = APIRouter(include_in_schema=False)

_OTHERWISE = "Log in by password to do this: what was logged in by a token's link ends with that token."
_NOT_PRESENT = "That is not your present password."


@router.get("/account")
def account_page(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Who looks, and its tokens."""
    return entering(request, viewer, Action.OWN_ACCOUNT) or _shown(request, services, viewer)


@router.post("/account/tokens")
def issue_token(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Give oneself a token and show it, this once."""
    if viewer is None:
        return login_page(request, 401)
    try:
        _refuse_by_token(viewer)
        secret = issue_from_form(Asked(services, request, viewer), viewer.name, fields)
    except DomainError as error:
        return _shown(request, services, viewer, status=422, error=error.detail)
    return _shown(request, services, viewer, secret=secret)


@router.post("/account/tokens/{token}/revoke")
def revoke_token(token: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Try it out, or take one's own token away."""
    if viewer is None:
        return login_page(request, 401)
    page = user_forms.revocation(viewer.name, token, "/account", [("Account", "/account")])
    return answer_form(request, services, viewer, page, fields)


@router.post("/account/password")
def set_password(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Set one's own password, which logs out everywhere."""
    if viewer is None:
        return login_page(request, 401)
    try:
        _refuse_by_token(viewer)
        _check_present(services, viewer, fields)
        Asked(services, request, viewer).carry_out(changes.set_password(viewer.name, fields.get("password", "")))
    except DomainError as error:
        return _shown(request, services, viewer, status=422, error=error.detail)
    return login_page(request, 200, "Your password is another one now. Log in with it.")


@router.post("/account/sessions/{name}/end")
def end_session(name: str, request: Request, services: Shared, viewer: Viewer, _: Form) -> Response:
    """End one of one's sessions: its browser is logged out."""
    if viewer is None:
        return login_page(request, 401)
    with services.engine.begin() as connection:
        ended = queries_of_login.end_named_session(connection, viewer.name, name) if name.isalnum() else None
        if ended is not None:
            logins.record(connection, LoginKind.ENDED, viewer.name, ended[1], provenance(request))
    if ended is None:
        return _shown(request, services, viewer, status=404, error="There is no such session; it may have ended.")
    return RedirectResponse("/account", 303)


def _refuse_by_token(viewer: Caller) -> None:
    if viewer.token is not None:
        raise NotAllowed(_OTHERWISE)


def _check_present(services: Shared, viewer: Caller, fields: Fields) -> None:
    with services.engine.begin() as connection:
        hashed = secrets.password_hash(connection, viewer.name)
    if not secrets.is_password(fields.get("present", ""), hashed):
        raise NotAllowed(_NOT_PRESENT)


def _shown(
    request: Request,
    services: Shared,
    viewer: Caller | None,
    *,
    status: int = 200,
    error: str = "",
    secret: str = "",
) -> Response:
    assert viewer is not None
    with services.reading() as connection:
        tokens = queries.list_tokens(connection, viewer.name)
        row = queries.get_user(connection, viewer.name)
        here = request.cookies.get(SESSION_COOKIE, "")
        sessions = queries_of_login.list_sessions(connection, viewer.name, here)
    context = {
        "caller": viewer,
        "of_settings": viewer.name == ADMIN_NAME,
        "tokens": tokens,
        "sessions": sessions,
        "has_password": row is not None and row.has_password,
        "error": error,
        "done": "",
        "secret": secret,
        "place": "/account",
        "manages": viewer.token is None,
    }
    return templates.page("account.html", {**frame(request, viewer), **context}, status)
