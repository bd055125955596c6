"""The Tree page at `/tree`, and the changes of its blocks at `/tree/live`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.domain.access.access import Action, Caller, refusal
from backend.web.frame import templates
from backend.web.frame.compression import CompressedStreamRoute
from backend.web.frame.page_cache import cached
from backend.web.frame.pages import Offer, entering, may_still, offer, reasons
from backend.web.frame.requested_position import At, NoSuchPosition, no_such_position, requested_position
from backend.web.frame.services import Shared, Viewer, frame
from backend.web.frame.travel import travel
from backend.web.tables.table_query import TableParameters
from backend.web.tree.distributor_table import own_parameters
from backend.web.tree.live import LiveTree
from backend.web.tree.tree_drawer import Drawer, read_drawer
from backend.web.tree.tree_drawings import Blocks, Drawings, View, draw_shared, draw_view, view
from backend.web.tree.tree_rows import TreeRows
from backend.web.tree.tree_view import TreeState, read
from backend.web.tree.tree_wish import Collapsed, Opened, TreeWish, tree_wish

router = APIRouter(include_in_schema=False, route_class=CompressedStreamRoute)

TEMPLATE = "tree.html"
# After a dropped connection the page reconnects, and its session is checked again.
RETRY_MILLISECONDS = 1000
STREAM_SECONDS = 600.0


def _live_tree(request: Request, services: Shared) -> LiveTree:
    state = request.app.state
    if not hasattr(state, "live_tree"):
        drawings = _drawings(request)
        state.live_tree = LiveTree(services, drawings.shared, _draw_view(drawings, services), _banner)
    live: LiveTree = state.live_tree
    return live


def _drawings(request: Request) -> Drawings:
    state = request.app.state
    if not hasattr(state, "tree_drawings"):
        state.tree_drawings = Drawings()
    drawings: Drawings = state.tree_drawings
    return drawings


Live = Annotated[LiveTree, Depends(_live_tree)]
Drawn = Annotated[Drawings, Depends(_drawings)]


@router.get("/tree")
def tree_page(
    request: Request,
    services: Shared,
    live: Live,
    drawings: Drawn,
    viewer: Viewer,
    query: TableParameters,
    collapsed: Collapsed = "",
    opened: Opened = "",
    at: At = None,
) -> Response:
    """Show the page, now or at an earlier position."""
    instead = entering(request, viewer, Action.READ_ESTATE)
    if instead is not None or viewer is None:
        return instead or Response(status_code=401)
    wish = tree_wish(collapsed, opened, own_parameters(query))
    with services.reading() as connection:
        try:
            position, past = requested_position(connection, viewer, at)
        except NoSuchPosition as why:
            return no_such_position(request, viewer, why)
        state = live.newest.read(connection) if position is None else read(connection, position)
        drawer = read_drawer(connection, wish, state, position)
    if position is None:
        # As the first update has it, which finds it drawn.
        wish = TreeRows(state.picture, wish).settled
        drawn = {**drawings.shared(state), **_draw_view(drawings, services)(state, wish)}
    else:
        drawn = {**draw_shared(state, live=False), **draw_view(view(state, wish, query, live=False))}
    ways = (("Edit tree", "/tree/edit"), ("Move primary", "/tree/-primary"))
    offers = [offer(viewer, Action.CHANGE_ESTATE, None, label, way) for label, way in ways]
    offers.append(Offer("Losses and dead letters", "/losses", None))
    context = {
        "drawn": drawn,
        "rows": TreeRows(state.picture, wish),
        "live": position is None,
        "lost_at": None,
        "past": past,
        "offers": offers,
        "reasons": reasons(offers),
    }
    return templates.page(TEMPLATE, {**context, **frame(request, viewer), **_drawer(viewer, drawer)})


@router.get("/tree/-drawer")
def tree_drawer(
    request: Request,
    services: Shared,
    live: Live,
    viewer: Viewer,
    query: TableParameters,
    collapsed: Collapsed = "",
    opened: Opened = "",
    at: At = None,
) -> Response:
    """Return the drawer alone, as the page has it."""
    caller = _watching(viewer)
    wish = tree_wish(collapsed, opened, own_parameters(query))

    def found() -> dict[str, Any]:
        with services.reading() as connection:
            position, _ = requested_position(connection, caller, at)
            state = live.newest.read(connection) if position is None else read(connection, position)
            drawer = read_drawer(connection, wish, state, position)
        # Its links must not lead from an earlier position to now.
        return {"drawer": drawer, "live": position is None}

    try:
        context = cached(request, f"tree drawer {wish.address()} at {at}", found)
    except NoSuchPosition as why:
        raise HTTPException(422, str(why)) from None
    text = templates.block(TEMPLATE, "drawer", {**context, **_drawer(caller, context["drawer"])})
    return HTMLResponse(travel(request).kept_by_links(text))


def _drawer(viewer: Caller, drawer: Drawer | None) -> dict[str, Any]:
    """Return the drawer with the changes that this viewer may make."""
    offers = [] if drawer is None else [offer(viewer, Action.CHANGE_ESTATE, None, *way) for way in drawer.changes]
    return {"drawer": drawer, "drawer_offers": offers, "drawer_reasons": reasons(offers)}


def _watching(viewer: Viewer) -> Caller:
    if viewer is None:
        raise HTTPException(401, "log in to see this page")
    refused = refusal(viewer, Action.READ_ESTATE)
    if refused is not None:
        raise refused
    return viewer


@router.get("/tree/live", response_class=EventSourceResponse, dependencies=[Depends(_watching)])
async def tree_live(
    request: Request,
    live: Live,
    query: TableParameters,
    collapsed: Collapsed = "",
) -> AsyncIterator[ServerSentEvent]:
    """Send server-sent events named after the page's blocks, whenever one changes; `beat` in between.

    `collapsed` is that of the page, which names the subtrees that were collapsed when it was opened. The table's
    parameters are those of the page, too.

    The stream ends with the session or token, and now and then as a safeguard; the browser reconnects.
    """
    yield ServerSentEvent(comment="open", retry=RETRY_MILLISECONDS)
    until = time.monotonic() + STREAM_SECONDS
    async with aclosing(live.watch(tree_wish(collapsed, kept=own_parameters(query)))) as watching:
        async for news in watching:
            if not await run_in_threadpool(may_still, request, Action.READ_ESTATE):
                break
            for name, text in news.items():
                yield ServerSentEvent(event=name, raw_data=text)
            if not news:
                yield ServerSentEvent(event="beat", raw_data="1")
            if time.monotonic() > until:
                break


def _draw_view(drawings: Drawings, services: Shared) -> Callable[[TreeState, TreeWish], Blocks]:
    def with_trends(shown: View) -> View:
        with services.reading() as connection:
            return shown.with_trends(connection)

    return lambda state, wish: drawings.of_view(state, wish, with_trends)


def _banner(lost_at: datetime | None) -> str:
    return templates.block(TEMPLATE, "outage", {"lost_at": lost_at})
