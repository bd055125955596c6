"""`?at=`: pages as of an earlier position of the event log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, tenants_read
from backend.eventlog.recorded import StoredEvent
from backend.queries.base import events
from backend.web.frame import templates
from backend.web.frame.services import frame
from backend.web.frame.timeline_view import TimelineItem, timeline_item

At = Annotated[str | None, Query(max_length=40)]
"""Query parameter of pages that can be shown as of an earlier position; `travel` recognises them by its name,
`at`."""

_MOST = 2**63 - 2
"""Highest position that the database can store, with room for the next one."""


@dataclass(frozen=True)
class Past:
    """An earlier position, as a page describes it."""

    position: int
    newest: int | None
    """Newest position; None: the viewer may not learn the log's length."""
    was: TimelineItem | None
    """Event at that position, as far as the viewer may see it."""


class NoSuchPosition(Exception):
    """The position does not exist; the text says why, in a sentence."""


def requested_position(connection: Connection, viewer: Caller, at: str | None) -> tuple[int | None, Past | None]:
    """Return the requested position, and its description; both None for now. Raises NoSuchPosition.

    `PageRoute` handles that error.
    """
    if at is None or not at.strip():
        return None, None
    position = whole_position(at)
    if not may(viewer, Action.READ_ESTATE):
        # A position beyond the end counts as now, and is not distinguished: a tenant must not learn where the log
        # ends.
        position = min(position, _MOST)
        was = events.event_at(connection, position, tenants_read(viewer))
        return position, _past(connection, position, None, was)
    newest = events.head(connection).position
    if position > newest:
        raise NoSuchPosition(f"Position {position:,} lies in the future; the newest event is at {newest:,}.")
    return position, _past(connection, position, newest, events.event_at(connection, position))


def _past(connection: Connection, position: int, newest: int | None, was: StoredEvent | None) -> Past:
    return Past(position, newest, None if was is None else timeline_item(connection, was))


def whole_position(text: str) -> int:
    """Parse a position. Raises NoSuchPosition."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise NoSuchPosition("A position is a whole number, counted from 1 by the event log.")
    return int(digits)


def no_such_position(request: Request, viewer: Caller, why: NoSuchPosition) -> Response:
    """Return the page for a missing position, with a link to the current state of the requested page."""
    way = (request.url.path, "Current state of the page")
    message = {"title": "No such position", "message": str(why), "way": way}
    around = frame(request, viewer)
    return templates.page("message.html", {**around, **message, "travel": around["travel"].of_now}, 422)
