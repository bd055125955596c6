"""The Tree page at `/` and `/tree`, and the changes of its blocks at `/tree/live`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.domain.access.access import Action, may, may_somewhere, refusal
from backend.web.frame import templates
from backend.web.frame.compression import CompressedStreamRoute
from backend.web.frame.pages import Offer, entering, may_still, offer, reasons
from backend.web.frame.requested_position import At, NoSuchPosition, no_such_position, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.tables.table_query import TableParameters, TableQuery
from backend.web.tree.distributor_table import PATH, distributor_table
from backend.web.tree.live import Blocks, LiveTree
from backend.web.tree.tree_view import Picture, TreeState, read

router = APIRouter(include_in_schema=False, route_class=CompressedStreamRoute)

TEMPLATE = "tree.html"
DISTRIBUTORS = "distributors"
BLOCKS = ("summary", "notices", "diagram", DISTRIBUTORS, "timeline")
_USUAL = TableQuery(PATH)
# After a dropped connection the page reconnects, and its session is checked again.
RETRY_MILLISECONDS = 1000
STREAM_SECONDS = 600.0


@router.get("/")
@router.get("/tree")
def tree_page(
    request: Request, services: Shared, viewer: Viewer, query: TableParameters, at: At = None
) -> Response:
    """Show the page, now or at an earlier position. Callers who may not read the estate are redirected."""
    if viewer is not None and request.url.path == "/" and not may(viewer, Action.READ_ESTATE):
        return RedirectResponse("/tenants" if may_somewhere(viewer, Action.READ_TENANT) else "/account", 303)
    instead = entering(request, viewer, Action.READ_ESTATE)
    if instead is not None or viewer is None:
        return instead or Response(status_code=401)
    with services.reading() as connection:
        try:
            position, past = requested_position(connection, viewer, at)
        except NoSuchPosition as why:
            return no_such_position(request, viewer, why)
        state = read(connection, position)
    ways = (("Edit tree", "/tree/edit"), ("Move primary", "/tree/-primary"))
    offers = [offer(viewer, Action.CHANGE_ESTATE, None, label, way) for label, way in ways]
    offers.append(Offer("Losses and dead letters", "/losses", None))
    offered = {"offers": offers, "reasons": reasons(offers)}
    about = {"lost_at": None, "past": past, **offered}
    context = {**_context(state, query, live=position is None), **frame(request, viewer), **about}
    return templates.page(TEMPLATE, context)


def _live_tree(request: Request, services: Shared) -> LiveTree:
    state = request.app.state
    if not hasattr(state, "live_tree"):
        state.live_tree = LiveTree(services, _draw, _banner)
    live: LiveTree = state.live_tree
    return live


def _watching(viewer: Viewer) -> None:
    if viewer is None:
        raise HTTPException(401, "log in to see this page")
    refused = refusal(viewer, Action.READ_ESTATE)
    if refused is not None:
        raise refused


@router.get("/tree/live", response_class=EventSourceResponse, dependencies=[Depends(_watching)])
async def tree_live(
    request: Request, live: Annotated[LiveTree, Depends(_live_tree)], query: TableParameters
) -> AsyncIterator[ServerSentEvent]:
    """Send server-sent events named after the page's blocks, whenever one changes; `beat` in between.

    The stream ends with the session or token, and now and then as a safeguard; the browser reconnects.
    """
    yield ServerSentEvent(comment="open", retry=RETRY_MILLISECONDS)
    until = time.monotonic() + STREAM_SECONDS
    async with aclosing(live.watch()) as watching:
        async for news in watching:
            if not await run_in_threadpool(may_still, request, Action.READ_ESTATE):
                break
            own = await run_in_threadpool(_own_table, live.state, query, news) if query.given else {}
            for name, text in {**news, **own}.items():
                yield ServerSentEvent(event=name, raw_data=text)
            if not news:
                yield ServerSentEvent(event="beat", raw_data="1")
            if time.monotonic() > until:
                break


def _context(state: TreeState, query: TableQuery, *, live: bool) -> dict[str, Any]:
    picture = Picture(state)
    table = distributor_table(picture, query, live=live)
    return {"picture": picture, "state": state, "live": live, "table": table}


def _draw(state: TreeState) -> Blocks:
    context = _context(state, _USUAL, live=True)
    return {name: templates.block(TEMPLATE, name, context) for name in BLOCKS}


def _own_table(state: TreeState | None, query: TableQuery, news: Blocks) -> Blocks:
    """Return the block with the table in the watcher's own order, if it is news."""
    if state is None or DISTRIBUTORS not in news:
        return {}
    return {DISTRIBUTORS: templates.block(TEMPLATE, DISTRIBUTORS, _context(state, query, live=True))}


def _banner(lost_at: datetime | None) -> str:
    return templates.block(TEMPLATE, "outage", {"lost_at": lost_at})
