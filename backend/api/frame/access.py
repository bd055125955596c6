"""Authentication and authorisation: each route declares what it needs, and one dependency of all routes checks it.

The declaration is in the OpenAPI as `x-treeline-needs`. A route without one is refused to all callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from backend.api.frame.services import Services
from backend.callers import UNGUESSABLE_CHARACTERS, is_token
from backend.domain.access.access import ADMIN, Action, Caller, may_somewhere, refusal
from backend.domain.base.errors import DomainError, NotFound
from backend.eventlog.faults import DatabaseUnavailable
from backend.queries.access.callers import caller_of_session, caller_of_token
from backend.queries.access.login import keep_session
from backend.queries.access.secrets import LONGEST_TOKEN, TOKEN_PREFIX

SAFE_METHODS = frozenset({"GET", "HEAD"})
NEEDS, OR_ITSELF = "x-treeline-needs", "x-treeline-or-itself"

# Only documents the scheme in the OpenAPI; the gate refuses before any handler runs (`gate.py`).
bearer_scheme = HTTPBearer(auto_error=False, scheme_name="token", description="A user's token, or the admin's.")


def needs(action: Action, *, or_itself: bool = False) -> dict[str, Any]:
    """Return a route's `openapi_extra`: the permission that it needs, in the tenant of its path if that names one.

    `or_itself`: the user that the path names is allowed, too. A route whose tenant is elsewhere (in a body, in
    each item of a list) admits callers with the permission in any tenant, and leaves the rest to `check` or
    `Caller.tenants_for`.
    """
    return {NEEDS: str(action), **({OR_ITSELF: True} if or_itself else {})}


def caller_at_hand(services: Services, headers: Headers) -> Caller | None:
    """Return the caller if that can be told without the database: by the token of the settings."""
    return ADMIN if is_token(_bearer(headers) or "", services.config.admin_token) else None


def is_guessable(headers: Headers) -> bool:
    """Return whether the token could be found by trying: it is short, as one from the settings may be."""
    return len(_bearer(headers) or "") < UNGUESSABLE_CHARACTERS


def may_be_known(headers: Headers, session: str) -> bool:
    """Return whether the credentials are worth a lookup in the database."""
    return _user_token(headers) is not None or bool(session)


def has_token(headers: Headers) -> bool:
    """Return whether the request has a token, valid or not."""
    return _bearer(headers) is not None


def find_caller(
    services: Services, headers: Headers, session: str, *, uses_session: bool = False
) -> Caller | None:
    """Return the current caller, None if the credentials are not valid.

    `session`: the browser's, empty if there is none or it does not count. `uses_session`: a person may be at the
    browser, so that the session is not idle.
    """
    found = caller_at_hand(services, headers)
    if found is not None or not may_be_known(headers, session):
        return found
    token = _user_token(headers)
    with services.looking() as connection:
        if token is not None:
            found = caller_of_token(connection, token)
        if found is None and session:
            found = caller_of_session(connection, session)
            if found is not None and uses_session:
                # While nothing can be written (a full disk, a standby), reading must still work.
                with suppress(DatabaseUnavailable):
                    keep_session(connection, session, services.config.session_idle)
    return found


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _user_token(headers: Headers) -> str | None:
    token = _bearer(headers) or ""
    return token if token.startswith(TOKEN_PREFIX) and len(token) <= LONGEST_TOKEN else None


async def caller(request: Request) -> Caller:
    """Return the caller; the gate has refused unauthenticated requests."""
    found: Caller = request.state.caller
    return found


Asking = Annotated[Caller, Depends(caller)]


async def allowed(request: Request, caller: Asking) -> None:
    """Raise NotAllowed, or NotFound for another's tenant, unless the caller may do what the route declares."""
    declared: Mapping[str, Any] = request.scope["route"].openapi_extra or {}
    if NEEDS not in declared:
        raise RuntimeError(f"{request.scope['route'].path} does not declare what it needs")
    if declared.get(OR_ITSELF) and request.path_params.get("user") == caller.name:
        return
    action, tenant = Action(declared[NEEDS]), request.path_params.get("tenant")
    if tenant is None and may_somewhere(caller, action):
        return
    refused = refusal(caller, action, tenant)
    if refused is not None:
        raise refused


def check(caller: Caller, action: Action, stream: str, unknown: DomainError) -> None:
    """Check a caller's permission for `stream`, given as tenant/instance/environment/stream.

    Raises `unknown`, the error for a stream that does not exist, if the caller may not know of its tenant;
    NotAllowed if the caller may only read it.
    """
    tenant = stream.partition("/")[0]
    refused = refusal(caller, action, tenant)
    if refused is not None:
        raise unknown if isinstance(refused, NotFound) else refused
