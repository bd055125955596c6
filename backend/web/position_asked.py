"""`?at=`: pages as of an earlier position of the event log."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.domain.access import Caller
from backend.queries import events
from backend.web import templates
from backend.web.services import frame

At = Annotated[str | None, Query(max_length=40)]


Past = tuple[int, int]
"""An earlier position, and the newest one."""


class NoSuchPosition(Exception):
    """There is no such position; its text says why, in a sentence."""


def position_asked(connection: Connection, at: str | None) -> tuple[int | None, Past | None]:
    """The position, and what the page says of it; both None for now. Raises NoSuchPosition, see `PageRoute`."""
    if at is None or not at.strip():
        return None, None
    head = events.head(connection).position
    if not (at.isascii() and at.isdigit()):
        raise NoSuchPosition("A position is a whole number, counted from 1 by the event log.")
    if int(at) > head:
        raise NoSuchPosition(f"Position {int(at):,} lies in the future; the newest event is at position {head:,}.")
    return int(at), (int(at), head)


def no_such_position(request: Request, viewer: Caller, why: NoSuchPosition) -> Response:
    """The page that says so, with the way to the one that was asked for as it is now."""
    way = (request.url.path, "To the page as it is now")
    message = {"title": "No such position", "message": str(why), "way": way}
    return templates.page("message.html", {**frame(request, viewer), **message}, 422)
