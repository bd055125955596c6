"""Who may enter a page, and what everybody else gets instead: the login page, or a page that says why not."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from backend.domain.access import Action, Caller, refusal
from backend.web import templates
from backend.web.login_page import login_page
from backend.web.services import frame

_LOG_IN = "You need to log in to see this page."


def entering(request: Request, viewer: Caller | None, action: Action) -> Response | None:
    """None if the viewer may see a page that needs this, else the page to show instead."""
    if viewer is None:
        return login_page(request, 401, _LOG_IN)
    refused = refusal(viewer, action)
    if refused is None:
        return None
    message = {"title": refused.title, "message": refused.detail, "way": ("/account", "Your account")}
    return templates.page("message.html", {**frame(request, viewer), **message}, 403)
