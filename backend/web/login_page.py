"""`/login` and `/logout`: a browser's session, by user and password or by a one-time link.

A login tells nobody which users there are: an unknown user, a disabled one and a wrong password get the same
answer, after the same work.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.errors import DomainError
from backend.queries import login as queries
from backend.queries import secrets
from backend.queries.login import SESSION_COOKIE, Secret
from backend.web import templates
from backend.web.forms import Form, LoginForm, login_key
from backend.web.services import Shared

router = APIRouter(include_in_schema=False)

ATTEMPTS = 10
ATTEMPTS_SECONDS = 60.0
MOST_CALLERS = 10_000
LONGEST = 300
_WRONG = "User and password do not belong together."
_LINK_GONE = "This link does not work any more: it was used already, or is too old."
_TOO_MANY = "Too many attempts. Wait a minute, then try again."


class RateLimit:
    """At most ATTEMPTS failures per caller within ATTEMPTS_SECONDS; of one process, and forgetful under attack."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def blocked(self, caller: str) -> bool:
        """Whether the caller failed too often of late."""
        with self._lock:
            return len(self._recent(caller)) >= ATTEMPTS

    def failed(self, caller: str) -> None:
        """Count a failure."""
        with self._lock:
            self._failures[caller] = [*self._recent(caller), time.monotonic()]
            self._failures.move_to_end(caller)
            while len(self._failures) > MOST_CALLERS:
                self._failures.popitem(last=False)

    def _recent(self, caller: str) -> list[float]:
        since = time.monotonic() - ATTEMPTS_SECONDS
        return [moment for moment in self._failures.get(caller, []) if moment > since]


def login_page(request: Request, status: int = 200, message: str = "", **headers: str) -> Response:
    """The page that asks for user and password, or a link."""

    def page(key: str) -> Response:
        context = {"title": "Log in", "message": message, "form_key": key}
        answer = templates.page("login.html", context, status)
        answer.headers.update(headers)
        return answer

    return login_key(request, page)


@router.get("/login")
def login(
    request: Request,
    services: Shared,
    code: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Ask for user and password; or turn a link's code into a session and go to the console."""
    if code is None:
        return login_page(request)
    limit, caller = _limit(request), _address(request)
    if limit.blocked(caller):
        return _too_many(request)
    with services.engine.begin() as connection:
        session = queries.use_link(connection, code)
    if session is None:
        limit.failed(caller)
        return login_page(request, 403, _LINK_GONE)
    return _logged_in(request, services, session)


@router.post("/login")
def login_by_password(request: Request, services: Shared, fields: LoginForm) -> Response:
    """Turn user and password into a session and go to the console."""
    user, password = fields.get("user", "")[:LONGEST], fields.get("password", "")[:LONGEST]
    limit = _limit(request)
    # By user as well, so that many addresses do not make many tries.
    callers = (_address(request), f"user {user}")
    if any(map(limit.blocked, callers)):
        return _too_many(request)
    try:
        session = _session(services, user, password)
    except DomainError as error:
        return login_page(request, 503, f"{error.title} {error.detail}")
    if session is None:
        for caller in callers:
            limit.failed(caller)
        return login_page(request, 403, _WRONG)
    return _logged_in(request, services, session)


@router.post("/logout")
def logout(request: Request, services: Shared, _: Form) -> Response:
    """End the session."""
    _end(request, services)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


def _session(services: Shared, user: str, password: str) -> Secret | None:
    name = user if "\x00" not in user else ""
    with services.engine.begin() as connection:
        hashed = secrets.password_hash(connection, name)
    if not secrets.is_password(password, hashed):
        return None
    with services.engine.begin() as connection:
        # It may have been replaced meanwhile, or the user disabled.
        same = secrets.password_hash(connection, name) == hashed
        return queries.open_session(connection, name) if same else None


def _logged_in(request: Request, services: Shared, session: Secret) -> Response:
    # Never the session that was there: whoever put it there would be logged in as well.
    _end(request, services)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        SESSION_COOKIE,
        session.value,
        expires=session.expires_at,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


def _end(request: Request, services: Shared) -> None:
    session = request.cookies.get(SESSION_COOKIE)
    if session:
        with services.engine.begin() as connection:
            queries.end_session(connection, session)


def _too_many(request: Request) -> Response:
    return login_page(request, 429, _TOO_MANY, **{"Retry-After": str(int(ATTEMPTS_SECONDS))})


def _address(request: Request) -> str:
    return request.client.host if request.client else "?"


def _limit(request: Request) -> RateLimit:
    state = request.app.state
    if not hasattr(state, "login_limit"):
        state.login_limit = RateLimit()
    limit: RateLimit = state.login_limit
    return limit
