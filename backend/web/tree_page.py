"""The Tree page at `/` and `/tree`, and its blocks as they change at `/tree/live`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backend.queries import events
from backend.web import templates
from backend.web.figures import clock
from backend.web.live import Blocks, LiveTree
from backend.web.services import Shared, Viewer
from backend.web.tree_view import Picture, TreeState, read

router = APIRouter(include_in_schema=False)

TEMPLATE = "tree.html"
BLOCKS = ("summary", "notices", "diagram", "distributors", "timeline")
# A page that was asked again after a cut connection asks for its session again too.
RETRY_MILLISECONDS = 1000
STREAM_SECONDS = 600.0
_LOG_IN = "You need a login link to see this page."


@router.get("/")
@router.get("/tree")
def tree_page(
    services: Shared, viewer: Viewer, at: Annotated[str | None, Query(max_length=40)] = None
) -> Response:
    """The page, now or at an earlier position of the event log."""
    if viewer is None:
        return templates.page("login_needed.html", {"title": "Log in", "message": _LOG_IN}, 401)
    with services.reading() as connection:
        position = _position(at, events.head(connection).position)
        if isinstance(position, str):
            return templates.page("message.html", {"title": "No such position", "message": position}, 422)
        state = read(connection, position)
    context = {**_context(state, live=position is None), "viewer": viewer, "lost_at": None}
    return templates.page(TEMPLATE, context)


def _position(at: str | None, head: int) -> int | str | None:
    """The position asked for, None for now, or why there is none such."""
    if at is None or not at.strip():
        return None
    if not (at.isascii() and at.isdigit()):
        return "A position is a whole number, counted from 1 by the event log."
    if int(at) > head:
        return f"Position {int(at):,} lies in the future; the newest event is at position {head:,}."
    return int(at)


def _live_tree(request: Request, services: Shared) -> LiveTree:
    state = request.app.state
    if not hasattr(state, "live_tree"):
        state.live_tree = LiveTree(services, _draw, _banner)
    live: LiveTree = state.live_tree
    return live


def _watching(viewer: Viewer) -> str:
    if viewer is None:
        raise HTTPException(401, _LOG_IN)
    return viewer


@router.get("/tree/live", response_class=EventSourceResponse, dependencies=[Depends(_watching)])
async def tree_live(live: Annotated[LiveTree, Depends(_live_tree)]) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events named after the page's blocks, whenever one is different; `beat` while none is.

    The stream ends now and then and the browser asks again, so that a session that is over is noticed.
    """
    yield ServerSentEvent(comment="open", retry=RETRY_MILLISECONDS)
    until = time.monotonic() + STREAM_SECONDS
    async with aclosing(live.watch()) as watching:
        async for news in watching:
            for name, text in news.items():
                yield ServerSentEvent(event=name, raw_data=text)
            if not news:
                yield ServerSentEvent(event="beat", raw_data="1")
            if time.monotonic() > until:
                break


def _context(state: TreeState, *, live: bool) -> dict[str, Any]:
    return {"picture": Picture(state), "state": state, "live": live}


def _draw(state: TreeState) -> Blocks:
    context = _context(state, live=True)
    return {name: templates.block(TEMPLATE, name, context) for name in BLOCKS}


def _banner(lost_at: datetime | None) -> str:
    return templates.block(TEMPLATE, "outage", {"lost_at": lost_at and clock(lost_at)})
