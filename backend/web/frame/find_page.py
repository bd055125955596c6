"""`/find`: search for anything by a part of its name; the window that Ctrl-K opens shows the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from backend.domain.access.access import Action, Caller, may
from backend.queries.base import events
from backend.queries.base.finding import Found, find
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer, frame, pages_for
from backend.web.words.figures import plain

router = APIRouter(include_in_schema=False, route_class=PageRoute)

FIND = "/find"
_MOST_OF_A_KIND = 8
_MOST_ON_THE_PAGE = 100
_ADDRESSES: Mapping[str, str] = {
    "cluster": "/clusters/{}",
    "switch": "/switches/{}",
    "placement": "/placements/{}",
    "user": "/users/{}",
    "webhook": "/webhooks/{}",
    "tenant": "/tenants/{}",
    "instance": "/tenants/{}",
    "environment": "/tenants/{}",
    "stream": "/tenants/{}",
}
Text = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True)
class Hit:
    """Search result: a link to a page."""

    kind: str
    name: str
    address: str


@router.get(FIND)
def find_page(request: Request, services: Shared, viewer: Viewer, q: Text = "") -> Response:
    """Show the search page, for browsers without JavaScript and for longer lists."""
    caller = enter(viewer, Action.OWN_ACCOUNT)
    context = {"q": q.strip(), "hits": _hits(services, caller, q, _MOST_ON_THE_PAGE)}
    return templates.page("find.html", {**frame(request, caller), **context})


@router.get(FIND + "/-hits")
def find_hits(services: Shared, viewer: Viewer, q: Text = "") -> Response:
    """Return the results for the search window, while the user types."""
    caller = enter(viewer, Action.OWN_ACCOUNT)
    context = {"q": q.strip(), "hits": _hits(services, caller, q, _MOST_OF_A_KIND)}
    return HTMLResponse(templates.block("find.html", "hits", context))


def _hits(services: ConsoleServices, caller: Caller, text: str, most: int) -> list[Hit]:
    words = [part for word in text.split() if (part := plain(word))]
    pages = [
        Hit("page", name, address)
        for name, address in (*pages_for(caller), ("Account", "/account"))
        if all(word.lower() in name.lower() for word in words)
    ]
    if not words:
        return pages
    estate = may(caller, Action.READ_ESTATE)
    seen = caller.tenants_for(Action.READ_TENANT)
    with services.reading() as connection:
        found = find(connection, words, most, estate=estate, tenants_seen=seen)
        hits = [*pages, *map(_hit, found)]
        if position := _position(words):
            event = events.event_at(connection, position, None if estate else seen)
            hits += [Hit("event", f"position {position:,}", f"/timeline/{position}")] if event else []
    return hits


def _position(words: Sequence[str]) -> int:
    """Return the position of the event log that is searched for; 0 if the words are not one."""
    text = words[0].lstrip("#")
    return int(text) if len(words) == 1 and text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _hit(found: Found) -> Hit:
    if found.kind == "group":
        return Hit(found.kind, found.name, f"/groups?{urlencode({'text': found.name})}")
    if found.kind == "application":
        environment, _, application = found.name.rpartition("/")
        return Hit(found.kind, found.name, f"/tenants/{environment}/-applications/{application}")
    return Hit(found.kind, found.name, _ADDRESSES[found.kind].format(found.name))
