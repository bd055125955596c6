"""`/login/oidc`: login at the OpenID provider and back.

    login page --> /login/oidc --> provider: who are you? --> /login/oidc/callback --> a session here

State that is needed when the browser comes back is derived from a separate cookie (`backend.oidc.login_attempt`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.callers import STATUS
from backend.changes.provider_login import ProviderLogin, log_in
from backend.cookies import cookie_of, delete_cookie, set_cookie
from backend.domain.access.provider_login import granted, person
from backend.domain.base.errors import DomainError, Kind, NotAllowed
from backend.oidc.errors import ProviderRefused
from backend.oidc.login_attempt import LoginAttempt
from backend.oidc.provider import Provider
from backend.oidc.requests import error_code
from backend.queries.access.login import LoginMethod, Secret, open_session
from backend.queries.access.users import get_user
from backend.web.frame.forms import is_secure
from backend.web.frame.login_page import login_page, provider_of, too_many
from backend.web.frame.services import Shared
from backend.web.frame.sessions import caller_of, limits_of, logged_in, next_page, opened, provenance, refused

router = APIRouter(include_in_schema=False)
logger = structlog.get_logger(__name__)

COOKIE = "treeline_oidc"
PATH = "/login/oidc"
BEGUN_SECONDS = 600
_BEGIN_AGAIN = "This login was not started in this browser, or too long ago. Start again."
Text = Annotated[str, Query(max_length=4096)]


@router.get(PATH)
def begin(
    request: Request, services: Shared, place: Annotated[str, Query(alias="next", max_length=4096)] = ""
) -> Response:
    """Redirect the browser to the provider."""
    provider, place = provider_of(request), next_page(place)
    if provider is None:
        return login_page(request, 404, "Login by a provider is disabled.", place=place)
    if limits_of(request).providers.blocked(caller_of(request)):
        return too_many(request, place)
    begun = LoginAttempt.new()
    try:
        onward = provider.authorization_url(begun, _redirect_uri(request, services))
    except DomainError as error:
        return _failed(request, provider, error, place)
    answer = RedirectResponse(onward, 303)
    # "lax": the way back is a link from another site.
    set_cookie(
        answer,
        COOKIE,
        f"{begun.secret}|{place}",
        max_age=BEGUN_SECONDS,
        samesite="lax",
        secure=is_secure(request),
    )
    return answer


@router.get(PATH + "/callback")
def callback(
    request: Request,
    services: Shared,
    code: Text = "",
    state: Text = "",
    error: Text = "",
    iss: Text = "",
) -> Response:
    """Handle the browser's return: open a session for the user that the provider names."""
    provider = provider_of(request)
    if provider is None:
        return login_page(request, 404, "Login by a provider is disabled.", place="/")
    secret, _, kept = cookie_of(request.headers, COOKIE, secure=is_secure(request)).partition("|")
    place, begun = next_page(kept), LoginAttempt.of_cookie(secret)
    if begun is None or not begun.is_state(state):
        # Any site can embed this URL: that is no failure of the user, and must not end a login in progress.
        return _failed(request, provider, NotAllowed(_BEGIN_AGAIN), place)
    if limits_of(request).providers.blocked(caller_of(request)):
        return too_many(request, place)
    try:
        # RFC 9207: the answer must come from the provider that was asked.
        if iss and iss != provider.client.issuer:
            raise ProviderRefused("the answer is from another provider")
        if error or not code:
            raise ProviderRefused(f"it answered {error_code(error) or 'without a code'}")
        session = _session(
            request, services, provider, provider.claims(code, begun, _redirect_uri(request, services))
        )
        answer = logged_in(request, services, session, place)
    except DomainError as why:
        if why.kind is not Kind.UNAVAILABLE:
            limits_of(request).providers.failed(caller_of(request))
            refused(request, services, LoginMethod.PROVIDER, "", why.detail)
        answer = _failed(request, provider, why, place)
    delete_cookie(answer, COOKIE, secure=is_secure(request))
    return answer


def _session(request: Request, services: Shared, provider: Provider, claims: dict[str, Any]) -> Secret:
    rules = provider.client.rules
    who = person(claims, rules)
    arrival = ProviderLogin(issuer=provider.client.issuer, person=who, granted=granted(who.groups, rules))
    user = log_in(services.dispatcher, arrival, request.state.request_id, datetime.now(UTC))
    with services.engine.begin() as connection:
        row = get_user(connection, user)
        if row is None or row.disabled:
            raise NotAllowed(f"user {user} is disabled")
        opened(connection, request, user, LoginMethod.PROVIDER)
        return open_session(
            connection, user, LoginMethod.PROVIDER, provenance(request), services.config.session_idle
        )


def _failed(request: Request, provider: Provider, why: DomainError, place: str) -> Response:
    """Return the login page with the error; errors to be fixed at the provider are logged, too."""
    logger.warning("login by the provider failed", reason=why.detail, kind=why.slug)
    sentence = f"{why.detail[:1].upper()}{why.detail[1:]}"
    message = f"Login by {provider.client.name} failed. {sentence.rstrip('.')}."
    return login_page(request, STATUS[why.kind], message, place=place)


def _redirect_uri(request: Request, services: Shared) -> str:
    return f"{str(services.config.url or request.base_url).rstrip('/')}{PATH}/callback"
