"""Problem documents (`application/problem+json`, RFC 9457) for every refusal, expected or not.

Internals are not disclosed: an unexpected error is logged with its request id, and the caller gets the id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from backend.callers import STATUS
from backend.domain.base.errors import DomainError, Kind

logger = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = "2"
MOST_ERRORS = 20
_SLUGS = {
    400: "malformed-request",
    401: "not-authenticated",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    429: "too-many-requests",
}


def problem(
    status: int,
    slug: str,
    title: str,
    detail: str | None = None,
    errors: Iterable[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Build one problem document."""
    document: dict[str, Any] = {"type": f"urn:treeline:{slug}", "title": title, "status": status}
    if detail is not None:
        document["detail"] = detail
    document["errors"] = list(errors)
    # ASCII: anything that a caller sent can be quoted, half surrogate pairs, too.
    return Response(json.dumps(document), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make the application answer every exception with a problem document."""
    app.add_exception_handler(DomainError, _domain_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _surprise)


def of_domain(error: DomainError) -> Response:
    """Return the problem document of a domain error."""
    status = STATUS[error.kind]
    headers = {"Retry-After": RETRY_AFTER_SECONDS} if error.kind is Kind.UNAVAILABLE else None
    return problem(status, error.slug, error.title, error.detail, map(vars, error.errors), headers)


async def _domain_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, DomainError)
    return of_domain(error)


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[:MOST_ERRORS]
    if any(each["type"] == "json_invalid" for each in found):
        place = found[0]
        reason = f"{place['ctx']['error']} at character {place['loc'][-1]}"
        return problem(400, _SLUGS[400], "The body is not valid JSON", reason)
    errors = [_field_error(each) for each in found]
    places = (each.get("parameter") or each["pointer"] or "the body" for each in errors)
    detail = "; ".join(f"{place}: {each['detail']}" for place, each in zip(places, errors, strict=True))
    return problem(422, "invalid", "The request is not valid", detail, errors)


def _field_error(found: Mapping[str, Any]) -> dict[str, str]:
    where, *path = found["loc"]
    detail = str(found["msg"])
    if where == "body":
        return {"pointer": pointer(path), "detail": detail}
    return {"pointer": "", "parameter": str(path[0]) if path else str(where), "detail": detail}


def pointer(path: Sequence[str | int]) -> str:
    """Build a JSON pointer (RFC 6901) from keys and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status, headers = error.status_code, dict(error.headers or {})
    title = HTTPStatus(status).phrase
    slug = _SLUGS.get(status, title.lower().replace(" ", "-"))
    detail = None if error.detail == title else str(error.detail)
    if status == 404:
        detail = detail or f"there is nothing at {request.url.path}"
    if status == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request.app.routes, request.scope)))
        detail = f"{request.url.path} takes {headers['Allow']}"
    return problem(status, slug, title, detail, headers=headers)


def _methods(routes: Sequence[BaseRoute], scope: Mapping[str, Any]) -> set[str]:
    # The router names the methods of the first route with this path only, and each of ours has one method.
    found: set[str] = set()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        probe = {**scope, "method": method}
        if any(route.matches(probe)[0] is Match.FULL for route in routes):
            found.add(method)
    return found


async def _surprise(request: Request, error: Exception) -> Response:
    request_id = getattr(request.state, "request_id", "")
    logger.error("request failed", request_id=request_id, path=request.url.path, exc_info=error)
    detail = f"the error is in the log of the control plane under request id {request_id}"
    return problem(500, "internal-error", "Unexpected error in Treeline", detail)
