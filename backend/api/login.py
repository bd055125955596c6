"""Login of browsers: a one-time link made with the admin's token, turned into a session cookie.

The link carries a code that opens nothing twice; the session is known to the database by its hash only.
"""

from __future__ import annotations

import html
import threading
import time
from collections import OrderedDict
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from backend.api.access import SESSION_COOKIE, Actor
from backend.api.requests import SharedServices
from backend.queries import login as queries

links = APIRouter(prefix="/login-links", tags=["login"])
router = APIRouter(include_in_schema=False)

ATTEMPTS = 10
ATTEMPTS_SECONDS = 60.0
MOST_CALLERS = 10_000


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


@links.post("", status_code=201)
def create_link(request: Request, services: SharedServices, actor: Actor) -> Response:
    """A link that logs one browser in, once, within an hour."""
    with services.engine.begin() as connection:
        code = queries.create_link(connection, actor)
    base = str(services.config.url or request.base_url).rstrip("/")
    body: dict[str, Any] = {
        "url": f"{base}/login?{urlencode({'code': code.value})}",
        "expires_at": code.expires_at.isoformat(),
    }
    return JSONResponse(body, 201)


@router.get("/login")
def login(
    request: Request,
    services: SharedServices,
    code: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Turn a code into a session and go to the console."""
    limit: RateLimit = request.app.state.login_limit
    caller = request.client.host if request.client else "?"
    if limit.blocked(caller):
        wait = "Too many links that were not valid. Wait a minute, then try again."
        return _page(429, "Too many attempts", wait, {"Retry-After": str(int(ATTEMPTS_SECONDS))})
    if code is None:
        return _page(200, "Log in to Treeline", f"You need a login link. {_HOW}")
    with services.engine.begin() as connection:
        session = queries.use_link(connection, code)
    if session is None:
        limit.failed(caller)
        return _page(403, "This link does not work any more", f"It was used already, or is too old. {_HOW}")
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


@router.post("/logout")
def logout(request: Request, services: SharedServices) -> Response:
    """End the session."""
    session = request.cookies.get(SESSION_COOKIE)
    if session:
        with services.engine.begin() as connection:
            queries.end_session(connection, session)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


_HOW = (
    "Run `treeline up` again: it prints a new one. Or ask for one with your token: "
    "POST /api/v1/login-links answers the link."
)


def _page(status: int, title: str, text: str, headers: dict[str, str] | None = None) -> HTMLResponse:
    content = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title></head>"
        f"<body><main><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p></main></body></html>"
    )
    return HTMLResponse(content, status, headers)
