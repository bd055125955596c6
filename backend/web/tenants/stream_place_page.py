"""`/tenants/-stream`: the environments in which the viewer may declare a stream; each leads to the form."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.access.access import Action
from backend.queries.tenants.tenants import find_environments
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.words.figures import plain

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SHOWN = 100


@router.get("/tenants/-stream")
def stream_place_page(
    request: Request, services: Shared, viewer: Viewer, find: Annotated[str, Query(max_length=300)] = ""
) -> Response:
    """Show the environments, or go to the form if there is only one."""
    caller = enter_in_some_tenant(viewer, Action.DECLARE_STREAMS)
    words = [part for word in find.split() if (part := plain(word))]
    with services.looking() as connection:
        tenants = caller.tenants_for(Action.DECLARE_STREAMS)
        found = find_environments(connection, words, MOST_SHOWN + 1, tenants)
    if len(found) == 1:
        one = found[0]
        return RedirectResponse(f"/tenants/{one.tenant}/{one.instance}/{one.name}/-new", 303)
    context = {
        "find": find.strip(),
        "environments": found[:MOST_SHOWN],
        "more": len(found) > MOST_SHOWN,
        "most": MOST_SHOWN,
    }
    return templates.page("stream_place.html", {**frame(request, caller), **context})
