"""`/login-links`: one-time links made with a token; `web/frame/login_page.py` turns them into sessions."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import DryRun, SharedServices
from backend.domain.access.access import Action
from backend.queries.access import login as queries

router = APIRouter(prefix="/login-links", tags=["login"])


@router.post("", status_code=201, openapi_extra=needs(Action.OWN_ACCOUNT))
def create_link(request: Request, services: SharedServices, caller: Asking, dry_run: DryRun = False) -> Response:
    """Create a link that logs one browser in as the caller, once, within an hour.

    A dry run has null in its place.
    """
    with services.engine.connect() as connection:
        code = queries.create_link(connection, caller)
        if not dry_run:
            connection.commit()
    base = str(services.config.url or request.base_url).rstrip("/")
    body: dict[str, Any] = {
        "url": None if dry_run else f"{base}/login?{urlencode({'code': code.value})}",
        "expires_at": code.expires_at.isoformat(),
    }
    return JSONResponse(body, 201)
