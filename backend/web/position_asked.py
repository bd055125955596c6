"""`?at=`: pages as of an earlier position of the event log."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from backend.domain.access import Caller
from backend.web import templates
from backend.web.services import frame

At = Annotated[str | None, Query(max_length=40)]


class NoSuchPosition(Exception):
    """There is no such position; its text says why, in a sentence."""


def position_asked(at: str | None, head: int) -> int | None:
    """The position, None for now. Raises NoSuchPosition."""
    if at is None or not at.strip():
        return None
    if not (at.isascii() and at.isdigit()):
        raise NoSuchPosition("A position is a whole number, counted from 1 by the event log.")
    if int(at) > head:
        raise NoSuchPosition(f"Position {int(at):,} lies in the future; the newest event is at position {head:,}.")
    return int(at)


def no_such_position(request: Request, viewer: Caller, why: NoSuchPosition, way: tuple[str, str]) -> Response:
    """The page that says so. `way`: the address of the page as it is now, and what that is called."""
    message = {"title": "No such position", "message": str(why), "way": way}
    return templates.page("message.html", {**frame(request, viewer), **message}, 422)
