"""`/login` and `/logout`: a browser's session, by password, by a one-time link, or by a provider.

For providers see `oidc_page.py`. A login does not reveal which users exist: an unknown user, a disabled one and a
wrong password get the same answer, after the same work.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.cookies import delete_cookie
from backend.domain.base.errors import DomainError
from backend.login_limits import ATTEMPTS_SECONDS
from backend.oidc.provider import Provider
from backend.queries.access import login as queries
from backend.queries.access import secrets
from backend.queries.access.login import SESSION_COOKIE, LoginMethod, Secret
from backend.web.frame import templates
from backend.web.frame.forms import Form, LoginForm, is_secure, login_key
from backend.web.frame.services import Shared
from backend.web.frame.sessions import (
    caller_of,
    end,
    limits_of,
    logged_in,
    next_page,
    next_page_of,
    opened,
    provenance,
    refused,
)

router = APIRouter(include_in_schema=False)

LOGIN = "/login"
LONGEST = 300
_WRONG = "Wrong user or password."
_LINK_GONE = "This link no longer works: it was already used, or has expired."
_TOO_MANY = "Too many attempts. Wait a minute, then try again."
_NO_PASSWORDS = "Login by password is disabled."


def login_page(
    request: Request, status: int = 200, message: str = "", *, place: str | None = None, **headers: str
) -> Response:
    """Return the login page with password, provider or link; `place`: the page to go to afterwards."""
    place = next_page_of(request) if place is None else place
    provider = provider_of(request)

    def page(key: str) -> Response:
        context = {
            "title": "Log in",
            "message": message,
            "form_key": key,
            "place": place,
            "passwords": request.app.state.services.config.password_login,
            "provider": None if provider is None else provider.client.name,
            "by_provider": f"/login/oidc?{urlencode({'next': place})}",
        }
        answer = templates.page("login.html", context, status)
        answer.headers.update(headers)
        return answer

    return login_key(request, page)


def provider_of(request: Request) -> Provider | None:
    """Return the OpenID provider, if one is configured."""
    found: Provider | None = request.app.state.provider
    return found


@router.get(LOGIN)
def login(
    request: Request,
    services: Shared,
    code: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Show the login page; or turn a link's code into a session and go to the console."""
    if code is None:
        return login_page(request)
    limit, caller = limits_of(request).addresses, caller_of(request)
    if limit.blocked(caller):
        return too_many(request)
    with services.engine.begin() as connection:
        used = queries.use_link(connection, code, provenance(request), services.config.session_idle)
        if used is not None:
            opened(connection, request, used[0], LoginMethod.LINK)
    if used is None:
        limit.failed(caller)
        refused(request, services, LoginMethod.LINK, "", "the link is unknown, used or expired")
        return login_page(request, 403, _LINK_GONE)
    return logged_in(request, services, used[1])


@router.post(LOGIN)
def login_by_password(request: Request, services: Shared, fields: LoginForm) -> Response:
    """Turn user and password into a session and go to the console."""
    place = next_page(fields.get("next", ""))
    if not services.config.password_login:
        return login_page(request, 403, _NO_PASSWORDS, place=place)
    user, password = fields.get("user", "")[:LONGEST], fields.get("password", "")[:LONGEST]
    limits, caller = limits_of(request), caller_of(request)
    # Limited by user as well, so that many addresses do not get many attempts.
    if limits.addresses.blocked(caller) or limits.users.blocked(user) or limits.names.blocked(user):
        return too_many(request, place)
    try:
        session = _session(request, services, user, password)
    except DomainError as error:
        return login_page(request, 503, f"{error.title} {error.detail}", place=place)
    if session is None:
        limits.addresses.failed(caller)
        known = refused(request, services, LoginMethod.PASSWORD, user, "wrong user or password")
        (limits.users if known else limits.names).failed(user)
        return login_page(request, 403, _WRONG, place=place)
    return logged_in(request, services, session, place)


@router.post("/logout")
def logout(request: Request, services: Shared, _: Form) -> Response:
    """End the session, and offer to end the provider's session from which it began."""
    means = end(request, services)
    provider = provider_of(request) if means == LoginMethod.PROVIDER else None
    back = f"{str(services.config.url or request.base_url).rstrip('/')}/login"
    onward = None if provider is None else provider.end_session_url(back)
    answer: Response = RedirectResponse("/login", 303)
    if provider is not None and onward is not None:
        # A page, not a redirect: the content security policy lets forms and their redirects go to this site only.
        answer = templates.page("logged_out.html", {"provider": provider.client.name, "onward": onward}, 200)
    delete_cookie(answer, SESSION_COOKIE, secure=is_secure(request))
    return answer


def too_many(request: Request, place: str | None = None) -> Response:
    """Return the answer to a caller with too many failures."""
    return login_page(request, 429, _TOO_MANY, place=place, **{"Retry-After": str(int(ATTEMPTS_SECONDS))})


def _session(request: Request, services: Shared, user: str, password: str) -> Secret | None:
    name = user if "\x00" not in user else ""
    with services.engine.begin() as connection:
        hashed = secrets.password_hash(connection, name)
    if not secrets.is_password(password, hashed):
        return None
    with services.engine.begin() as connection:
        # The password may have been replaced meanwhile, or the user disabled.
        if secrets.password_hash(connection, name) != hashed:
            return None
        opened(connection, request, name, LoginMethod.PASSWORD)
        return queries.open_session(
            connection, name, LoginMethod.PASSWORD, provenance(request), services.config.session_idle
        )
