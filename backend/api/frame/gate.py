"""Checks of every request ahead of routing: request id, access, content type; also headers of the answer.

Plain ASGI, so that it also applies to unknown routes and to bodies that cannot be parsed: a caller without a token
learns nothing but that a token is needed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend import callers
from backend.api.frame.access import (
    SAFE_METHODS,
    caller_at_hand,
    find_caller,
    has_token,
    is_guessable,
    may_be_known,
)
from backend.api.frame.problems import of_domain, problem
from backend.api.frame.services import Services
from backend.cookies import cookie_of, is_over_tls
from backend.domain.access.access import Action, Caller, refusal
from backend.domain.base.errors import DomainError
from backend.domain.names.names import is_name
from backend.eventlog.provenance import coming_from
from backend.login_limits import ATTEMPTS_SECONDS, limits_of, network_of
from backend.queries.access.login import SESSION_COOKIE
from backend.telemetry import Telemetry

API = "/api/"
MOST_BODY_BYTES = 1 << 20
MOST_PLACEMENT_BYTES = 32 << 20
MOST_FORM_BYTES = 3 << 20
"""Maximum bytes of a form's body: it may be three times as long as its fields, as `"` is sent as `%22`."""
_LARGER = {"/api/v1/placements": MOST_PLACEMENT_BYTES, "/placements/-new": MOST_FORM_BYTES}
"""Paths with larger limits, where a body may name each partition of a cluster."""
# Answered without a lookup of the caller in the database.
_PLAIN = ("/livez", "/readyz", "/openapi.json", "/static/")
_METRICS = "/metrics"
_HTML_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"


class Gate:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, services: Services, telemetry: Telemetry) -> None:
        self._app = app
        self._services = services
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = callers.request_id(headers.get("x-request-id", ""))
        state = scope.setdefault("state", {})
        # On `/api/` a browser's session may only read, see `_refusal`; requests that follow changes are reads.
        secure = is_over_tls(scope["scheme"], self._services.config.url)
        session = cookie_of(headers, SESSION_COOKIE, secure=secure)
        again = partial(find_caller, self._services, headers, session)
        state.update(request_id=request_id, caller=None, find_caller=again)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), request_id, scope["path"])
            await send(message)

        try:
            refusal = await self._refusal(scope, headers, session)
        except DomainError as error:
            refusal = of_domain(error)
        caller = state["caller"]
        state["provenance"] = callers.provenance_of(scope, "" if caller is None else caller.means)
        named = {"request_id": request_id, **_tenant_of(scope["path"])}
        told = named if caller is None else {**named, "actor": caller.name}
        # These names are in every line that is logged meanwhile, also on threads that the request waits for.
        with (
            self._telemetry.noting(**told) as found_by,
            structlog.contextvars.bound_contextvars(**named, **found_by),
            coming_from(state["provenance"]),
        ):
            await (refusal or self._app)(scope, _limited(receive, _most(scope["path"])), send_with_headers)

    async def _refusal(self, scope: Scope, headers: Headers, session: str) -> Response | None:
        path, method = scope["path"], scope["method"]
        if path.startswith(_PLAIN):
            return None
        # A browser sends its cookie with any site's form: through the API a session may only read.
        if path.startswith(API) and method not in SAFE_METHODS:
            session = ""
        stopped = has_token(headers) and self._is_stopped(scope)
        if stopped and is_guessable(headers):
            return _stopped()
        caller = caller_at_hand(self._services, headers)
        if caller is None and may_be_known(headers, session):
            caller = await run_in_threadpool(
                find_caller, self._services, headers, session, uses_session=_is_by_somebody(method, headers)
            )
        scope["state"]["caller"] = caller
        if caller is None and stopped:
            return _stopped()
        if caller is None and has_token(headers):
            await run_in_threadpool(self._count_wrong_token, scope)
        if path == _METRICS:
            return _nobody(headers) if caller is None else _refuse_tenants(caller)
        if not path.startswith(API):
            return None
        if caller is None:
            return _nobody(headers)
        return _refuse_size(headers.get("content-length"), _most(path)) or _refuse_content_type(
            headers.get("content-type")
        )

    def _is_stopped(self, scope: Scope) -> bool:
        """Return whether this address has sent too many wrong tokens lately."""
        return limits_of(scope["app"]).tokens.blocked(network_of(callers.provenance_of(scope, "").address))

    def _count_wrong_token(self, scope: Scope) -> None:
        # A caller with a wrong token must be told so even while nothing can be written.
        with suppress(DomainError):
            limits_of(scope["app"]).wrong_token(self._services.engine, callers.provenance_of(scope, ""))


def _is_by_somebody(method: str, headers: Headers) -> bool:
    """Return whether a person may have caused a browser's request: pages also poll by themselves."""
    follows = "hx-request" in headers or "text/event-stream" in headers.get("accept", "")
    return method not in SAFE_METHODS or not follows


def _stopped() -> Response:
    detail = "too many wrong tokens came from this address: wait a minute, and check the token"
    after = {"Retry-After": str(int(ATTEMPTS_SECONDS))}
    return problem(429, "too-many-attempts", "Too many attempts", detail, headers=after)


def _nobody(headers: Headers) -> Response:
    title = "A token is needed"
    detail = "send Authorization: Bearer <token>; of the local estate, `treeline status --json` shows it"
    if has_token(headers):
        title = "Invalid token"
        detail = "the token is unknown, has expired, or was revoked: issue a new one on the page /account"
    asked = {"WWW-Authenticate": 'Bearer realm="treeline"'}
    return problem(401, "not-authenticated", title, detail, headers=asked)


def _refuse_tenants(caller: Caller) -> Response | None:
    """Refuse the metrics to callers who may not read the estate: they name all tenants."""
    refused = refusal(caller, Action.READ_ESTATE, None)
    return None if refused is None else of_domain(refused)


def _tenant_of(path: str) -> dict[str, str]:
    """Return the tenant that a path names, if the name is valid."""
    parts = path.removeprefix(API).removeprefix("v1").strip("/").split("/")
    return {"tenant": parts[1]} if parts[0] == "tenants" and len(parts) > 1 and is_name(parts[1]) else {}


def _most(path: str) -> int:
    return _LARGER.get(path, MOST_BODY_BYTES)


def _too_large(most: int) -> str:
    return f"a body has at most {most} bytes here"


def _refuse_size(content_length: str | None, most: int) -> Response | None:
    """Refuse a request at once if it declares too large a body; `_limited` handles undeclared sizes."""
    if content_length is None or (content_length.isdigit() and int(content_length[:20]) <= most):
        return None
    return problem(413, "too-large", "Content Too Large", _too_large(most))


def _limited(receive: Receive, most: int) -> Receive:
    """Return a `receive` that lets no body beyond the limit into memory."""
    received_bytes = 0

    async def limited() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > most:
            raise HTTPException(413, _too_large(most))
        return message

    return limited


def _refuse_content_type(content_type: str | None) -> Response | None:
    """Refuse a body with another type than JSON; one without a declared type is read as JSON."""
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return None
    detail = f"bodies are JSON: send Content-Type: application/json, not {kind[:60]!r}"
    return problem(415, "unsupported-media-type", "Unsupported Media Type", detail)


def _add_headers(headers: MutableHeaders, request_id: str, path: str) -> None:
    is_html = headers.get("content-type", "").startswith("text/html")
    headers["X-Request-ID"] = request_id
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "no-referrer")
    headers.setdefault("Content-Security-Policy", _HTML_POLICY if is_html else _DATA_POLICY)
    if is_html:
        headers.setdefault("X-Frame-Options", "DENY")
    if is_html or path.startswith(API):
        headers.setdefault("Cache-Control", "no-store")
