"""Shared parts of all ways to log in: limits on failures, the new session with its cookie, and the next page.

Logins are recorded for the Audit page, as are refused ones, as far as `backend/login_limits.py` has room for them,
since anybody can cause those.
"""

from __future__ import annotations

import re

import structlog
from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.cookies import set_cookie
from backend.domain.access.access import Provenance
from backend.domain.names.names import is_name
from backend.login_limits import LoginLimits, network_of
from backend.login_limits import limits_of as limits_of_app
from backend.queries.access import login as queries
from backend.queries.access import logins
from backend.queries.access.login import SESSION_COOKIE, Secret
from backend.queries.access.logins import LoginKind
from backend.queries.access.users import get_user
from backend.web.frame.forms import is_secure, session_of
from backend.web.frame.services import ConsoleServices

logger = structlog.get_logger(__name__)

LONGEST_PLACE = 1000
_PLACE = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_NO_PLACES = ("/login", "/logout", "/api/", "/registries/")


def provenance(request: Request) -> Provenance:
    """Return the client address and program of a request."""
    found: Provenance = request.state.provenance
    return found


def caller_of(request: Request) -> str:
    """Return the key by which failed logins of a request's origin are counted."""
    return network_of(provenance(request).address)


def limits_of(request: Request) -> LoginLimits:
    """Return the process's limits on failed logins."""
    return limits_of_app(request.app)


def refused(request: Request, services: ConsoleServices, means: str, user: str, reason: str) -> bool:
    """Record a refused login, with the user's name only if that user exists; return whether it does."""
    limits = limits_of(request)
    with services.engine.begin() as connection:
        known = user if is_name(user) and get_user(connection, user) is not None else ""
        kept = limits.keeps(caller_of(request), known)
        if kept:
            logins.record(connection, LoginKind.REFUSED, known, means, provenance(request), reason)
    if not kept:
        logger.warning("a refused login is not recorded: there are too many", means=means, reason=reason)
        limits.one_more(services.engine)
    return bool(known)


def opened(connection: Connection, request: Request, user: str, means: str) -> None:
    """Record a login in the transaction that opens the session."""
    logins.record(connection, LoginKind.IN, user, means, provenance(request))


def logged_in(request: Request, services: ConsoleServices, session: Secret, place: str = "/") -> Response:
    """Redirect to the console with a new session."""
    # Never reuse an existing session: whoever planted it would be logged in as well.
    end(request, services)
    answer = RedirectResponse(place, 303)
    set_cookie(
        answer,
        SESSION_COOKIE,
        session.value,
        expires=session.expires_at,
        samesite="lax",
        secure=is_secure(request),
    )
    return answer


def end(request: Request, services: ConsoleServices) -> str | None:
    """End the browser's session and return how it began."""
    session = session_of(request)
    if not session:
        return None
    with services.engine.begin() as connection:
        ended = queries.end_session(connection, session)
        if ended is None:
            return None
        user, means = ended
        logins.record(connection, LoginKind.OUT, user, means, provenance(request))
    return means


def next_page(text: str) -> str:
    """Return the page to go to after a login: a page of this console, else the first one.

    Never another site: the author of a login link could otherwise redirect to one that looks like this.
    """
    if len(text) > LONGEST_PLACE or not _PLACE.fullmatch(text) or text.startswith(_NO_PLACES):
        return "/"
    return text


def next_page_of(request: Request) -> str:
    """Return the page to go to after a login that a page demanded in its own place."""
    if request.method != "GET" or "hx-request" in request.headers:
        return "/"
    query = f"?{request.url.query}" if request.url.query else ""
    return next_page(f"{request.url.path}{query}")
