"""`/find`: search for anything by a part of its name; the window that Ctrl-K opens shows the same."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from backend.domain.access.access import Action
from backend.web.finding.hits import found_for
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, SharedRegistries, Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

FIND = "/find"
_MOST_OF_A_KIND = 8
_MOST_ON_THE_PAGE = 100
Text = Annotated[str, Query(max_length=300)]


@router.get(FIND)
def find_page(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, q: Text = ""
) -> Response:
    """Show the search page, for browsers without JavaScript and for longer lists."""
    caller = enter(viewer, Action.OWN_ACCOUNT)
    sections = found_for(services, registries, caller, q, _MOST_ON_THE_PAGE)
    return templates.page("find.html", {**frame(request, caller), "q": q.strip(), "sections": sections})


@router.get(FIND + "/-hits")
def find_hits(services: Shared, registries: SharedRegistries, viewer: Viewer, q: Text = "") -> Response:
    """Return the results for the search window, while the user types."""
    caller = enter(viewer, Action.OWN_ACCOUNT)
    sections = found_for(services, registries, caller, q, _MOST_OF_A_KIND)
    return HTMLResponse(templates.block("find.html", "hits", {"q": q.strip(), "sections": sections}))
