"""`/account`: the caller's own user, tokens, sessions and password.

A session that a token opened ends with the token. So a browser that was logged in by a link that a token made may
neither issue tokens nor set a password; a browser that was logged in by password may.
"""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from backend.domain.access.access import ADMIN_NAME, Action, Caller
from backend.queries.access import login as queries_of_login
from backend.queries.access import users as queries
from backend.web.access import session_form, token_form
from backend.web.access.password_form import password_form
from backend.web.access.user_tables import TOKENS
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.form_page import answer_form
from backend.web.frame import templates
from backend.web.frame.forms import Fields, Form, session_of
from backend.web.frame.login_page import login_page
from backend.web.frame.pages import entering
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tables.table_query import table_query

router = APIRouter(include_in_schema=False)

PLACE = "/account"
_TRAIL = [("Account", PLACE)]
_OTHERWISE = "Log in with your password to do this: a session from a token's login link ends with that token."


@router.get("/account")
def account_page(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the user's own permissions, tokens and sessions."""
    refused = entering(request, viewer, Action.OWN_ACCOUNT)
    if viewer is None or refused is not None:
        return refused or login_page(request, 401)
    return _shown(request, services, viewer)


@router.post("/account/tokens")
def issue_token(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview a new token, or issue it and show it this once."""
    if viewer is None or viewer.token is not None:
        return _not_by_token(request, services, viewer)

    def shown(change_request: ChangeRequest, _: Fields, secret: str) -> Response:
        return _shown(request, services, change_request.viewer, secret=secret)

    page = token_form.issuing(viewer.name, PLACE, _TRAIL, shown)
    return answer_form(request, services, viewer, page, fields)


@router.post("/account/tokens/{token}/revoke")
def revoke_token(token: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the revocation of an own token, or revoke it."""
    if viewer is None:
        return login_page(request, 401)
    page = token_form.revocation(viewer.name, token, PLACE, _TRAIL)
    return answer_form(request, services, viewer, page, fields)


@router.post("/account/password")
def set_password(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview a new password, or set it, which ends all sessions."""
    if viewer is None or viewer.token is not None:
        return _not_by_token(request, services, viewer)

    def done(_: ChangeRequest) -> Response:
        return login_page(request, 200, "Your password was changed. Log in with the new one.")

    page = password_form(viewer.name, PLACE, _TRAIL, done, own=True)
    return answer_form(request, services, viewer, page, fields)


@router.post("/account/sessions/{name}/end")
def end_session(name: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the end of an own session, or end it and log its browser out."""
    if viewer is None:
        return login_page(request, 401)
    return answer_form(request, services, viewer, session_form.ending(name, PLACE, _TRAIL), fields)


def _not_by_token(request: Request, services: Shared, viewer: Caller | None) -> Response:
    """Answer a viewer who is not logged in by password, or not at all."""
    if viewer is None:
        return login_page(request, 401)
    return _shown(request, services, viewer, status=403, error=_OTHERWISE)


def _shown(
    request: Request,
    services: Shared,
    viewer: Caller,
    *,
    status: int = 200,
    error: str = "",
    secret: str = "",
) -> Response:
    with services.reading() as connection:
        tokens = queries.list_tokens(connection, viewer.name)
        row = queries.get_user(connection, viewer.name)
        here = session_of(request)
        sessions = queries_of_login.list_sessions(connection, viewer.name, here)
    context = {
        "caller": viewer,
        "of_settings": viewer.name == ADMIN_NAME,
        "tokens": TOKENS.view(tokens, table_query(request).of(PLACE)),
        "sessions": sessions,
        "idle_minutes": services.config.session_idle_minutes,
        "most_hours": queries_of_login.SESSION_LIFE // timedelta(hours=1),
        "has_password": row is not None and row.has_password,
        "error": error,
        "secret": secret,
        "place": PLACE,
        "manages": viewer.token is None,
    }
    return templates.page("account.html", {**frame(request, viewer), **context}, status)
