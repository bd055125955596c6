"""What all ways to log in share: how often one may fail, the new session with its cookie, and where it leads.

What happened is kept for the Audit page: logins, and refused ones as far as `backend/login_limits.py` has room
for them, since anybody can make those.
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
    """Where a request comes from."""
    found: Provenance = request.state.provenance
    return found


def caller_of(request: Request) -> str:
    """What failures from where a request comes from are counted by."""
    return network_of(provenance(request).address)


def limits_of(request: Request) -> LoginLimits:
    """The process's limits of failed logins."""
    return limits_of_app(request.app)


def refused(request: Request, services: ConsoleServices, means: str, user: str, reason: str) -> bool:
    """Keep that a login was refused, the user only if there is one of this name; whether there is."""
    limits = limits_of(request)
    with services.engine.begin() as connection:
        known = user if is_name(user) and get_user(connection, user) is not None else ""
        kept = limits.keeps(caller_of(request), known)
        if kept:
            logins.record(connection, LoginKind.REFUSED, known, means, provenance(request), reason)
    if not kept:
        logger.warning("a refused login is not kept: there are too many", means=means, reason=reason)
        limits.one_more(services.engine)
    return bool(known)


def opened(connection: Connection, request: Request, user: str, means: str) -> None:
    """Keep that somebody logged in, in the transaction that opens the session."""
    logins.record(connection, LoginKind.IN, user, means, provenance(request))


def logged_in(request: Request, services: ConsoleServices, session: Secret, place: str = "/") -> Response:
    """Go on to the console with a new session."""
    # Never the session that was there: whoever put it there would be logged in as well.
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
    """End the session that the browser has; how it began."""
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


def place_asked(text: str) -> str:
    """Where a login leads: a page of this console, else its first one. Never another site: whoever made the link
    to log in by could otherwise send on to one that looks like this."""
    if len(text) > LONGEST_PLACE or not _PLACE.fullmatch(text) or text.startswith(_NO_PLACES):
        return "/"
    return text


def place_of(request: Request) -> str:
    """Where a login leads that a page asked for in its own place."""
    if request.method != "GET" or "hx-request" in request.headers:
        return "/"
    query = f"?{request.url.query}" if request.url.query else ""
    return place_asked(f"{request.url.path}{query}")
