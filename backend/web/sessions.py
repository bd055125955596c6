"""What all ways to log in share: how often one may fail, the new session with its cookie, and where it leads.

What happened is kept for the Audit page: logins, and refused ones up to a number, since anybody can make those.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict

import structlog
from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.domain.access import Provenance
from backend.domain.names import is_name
from backend.queries import login as queries
from backend.queries import logins
from backend.queries.login import SESSION_COOKIE, Secret
from backend.queries.logins import LoginKind
from backend.queries.users import get_user
from backend.web.forms import is_secure
from backend.web.services import ConsoleServices

logger = structlog.get_logger(__name__)

ATTEMPTS = 10
ATTEMPTS_SECONDS = 60.0
MOST_CALLERS = 10_000
MOST_REFUSED = 600
REFUSED_SECONDS = 3600.0
LONGEST_PLACE = 1000
_PLACE = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_NO_PLACES = ("/login", "/logout", "/api/", "/registries/")


class RateLimit:
    """At most ATTEMPTS failures per caller within ATTEMPTS_SECONDS; of one process, and forgetful under attack."""

    def __init__(self, attempts: int = ATTEMPTS, seconds: float = ATTEMPTS_SECONDS) -> None:
        self._attempts, self._seconds = attempts, seconds
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def blocked(self, caller: str) -> bool:
        """Whether the caller failed too often of late."""
        with self._lock:
            return len(self._recent(caller)) >= self._attempts

    def failed(self, caller: str) -> None:
        """Count a failure."""
        with self._lock:
            self._failures[caller] = [*self._recent(caller), time.monotonic()]
            self._failures.move_to_end(caller)
            while len(self._failures) > MOST_CALLERS:
                self._failures.popitem(last=False)

    def _recent(self, caller: str) -> list[float]:
        since = time.monotonic() - self._seconds
        return [moment for moment in self._failures.get(caller, []) if moment > since]


def provenance(request: Request) -> Provenance:
    """Where a request comes from."""
    found: Provenance = request.state.provenance
    return found


def limit_of(request: Request) -> RateLimit:
    """The process's limit of failed logins."""
    return _of_process(request, "login_limit", ATTEMPTS, ATTEMPTS_SECONDS)


def refused(request: Request, services: ConsoleServices, means: str, user: str, reason: str) -> None:
    """Keep that a login was refused; the user only if there is one of this name."""
    kept = _of_process(request, "refused_limit", MOST_REFUSED, REFUSED_SECONDS)
    if kept.blocked(""):
        logger.warning("a refused login is not kept: there are too many", means=means, reason=reason)
        return
    kept.failed("")
    with services.engine.begin() as connection:
        known = user if is_name(user) and get_user(connection, user) is not None else ""
        logins.record(connection, LoginKind.REFUSED, known, means, provenance(request), reason)


def opened(connection: Connection, request: Request, services: ConsoleServices, user: str, means: str) -> None:
    """Keep that somebody logged in, in the transaction that opens the session."""
    logins.record(connection, LoginKind.IN, user, means, provenance(request))
    logins.forget(connection, services.config.audit_days)


def logged_in(request: Request, services: ConsoleServices, session: Secret, place: str = "/") -> Response:
    """Go on to the console with a new session."""
    # Never the session that was there: whoever put it there would be logged in as well.
    end(request, services)
    answer = RedirectResponse(place, 303)
    answer.set_cookie(
        SESSION_COOKIE,
        session.value,
        expires=session.expires_at,
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )
    return answer


def end(request: Request, services: ConsoleServices) -> str | None:
    """End the session that the browser has; how it began."""
    session = request.cookies.get(SESSION_COOKIE)
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


def _of_process(request: Request, name: str, attempts: int, seconds: float) -> RateLimit:
    state = request.app.state
    if not hasattr(state, name):
        setattr(state, name, RateLimit(attempts, seconds))
    limit: RateLimit = getattr(state, name)
    return limit
