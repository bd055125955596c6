"""Who asks: the admin by bearer token, or a browser by its session. Roles and more tokens come later."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from backend.api.services import Services
from backend.queries.login import session_actor

ADMIN = "admin"
SESSION_COOKIE = "treeline_session"
SAFE_METHODS = frozenset({"GET", "HEAD"})

# Only documents the scheme in the OpenAPI; the gate refuses before any handler runs (`gate.py`).
bearer_scheme = HTTPBearer(auto_error=False, scheme_name="token", description="Treeline's admin token.")


def token_actor(services: Services, headers: Headers) -> str | None:
    """The actor of a bearer token, None without a valid one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    admin_token = services.config.admin_token
    if scheme.lower() != "bearer" or admin_token is None or not admin_token.get_secret_value():
        return None
    # Constant time: how long a comparison takes must not tell how much of a guess was right.
    given, wanted = token.strip().encode(), admin_token.get_secret_value().encode()
    return ADMIN if hmac.compare_digest(given, wanted) else None


def cookie_actor(services: Services, headers: Headers) -> str | None:
    """The actor of a browser's session, None without a valid one. Reads the database."""
    session = cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)
    if not session:
        return None
    with services.reading() as connection:
        return session_actor(connection, session)


def actor(request: Request) -> str:
    """Who asks; the gate has refused everybody else."""
    found: str = request.state.actor
    return found


Actor = Annotated[str, Depends(actor)]
