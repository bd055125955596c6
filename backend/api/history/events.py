"""`/events`: the event log as a list and as server-sent events, and the verification of its hash chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import MOST_ITEMS, Paging, Reading, SharedServices, listed
from backend.api.frame.services import Services
from backend.domain.access.access import Action, Caller, may_somewhere, tenants_read
from backend.domain.base.errors import ValueInvalid
from backend.domain.base.given_times import time_since
from backend.eventlog.recorded import Head, StoredEvent
from backend.queries.base import events as queries
from backend.queries.base.differences import Difference, differences

router = APIRouter(prefix="/events", tags=["events"])

LAST_POSITION = 2**63 - 1
STREAM_PAGE = 500
# Also the longest time until a stream notices that the process is stopping.
WAIT_SECONDS = 1.0

_TEXT = r"^[^\x00-\x1f\x7f]*$"

After = Annotated[int, Query(ge=0, le=LAST_POSITION, description="Only events above this position.")]


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def list_events(
    connection: Reading,
    caller: Asking,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Maximum number of items in the answer.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the previous answer.")] = None,
    stream: Annotated[str | None, Query(description="Only event streams whose name has this prefix.")] = None,
    name: Annotated[str, Query(max_length=200, pattern=_TEXT, description="Only events of this name.")] = "",
    actor: Annotated[str, Query(max_length=200, pattern=_TEXT, description="Only events of this actor.")] = "",
    since: Annotated[
        str, Query(max_length=40, description="Only events since a time: milliseconds since 1970, or ISO 8601.")
    ] = "",
    newest: Annotated[bool, Query(description="Newest first, route epochs aside; not with `after`.")] = False,
) -> dict[str, Any]:
    """List events in order; events of other tenants, and of the estate, only for callers who may read them."""
    if newest and after:
        raise ValueInvalid("`after` and `newest` exclude each other; give one of them")
    if cursor is not None:
        after = _position(cursor, "cursor")
    if stream is not None and not (stream.isascii() and stream.isprintable()):
        raise ValueInvalid("no event stream has such a name")
    wanted: dict[str, Any] = {"name": name, "actor": actor, "since": time_since(since)}
    wanted["tenants"] = tenants_read(caller)
    if newest:
        before = after if cursor is not None else LAST_POSITION
        found = queries.events_before(connection, before, limit + 1, stream_prefix=stream or "", **wanted)
    else:
        found = queries.list_events(connection, after=after, limit=limit + 1, stream_prefix=stream, **wanted)
    more = len(found) > limit
    found = found[:limit]
    return {
        "items": [shown(event) for event in found],
        "next_cursor": str(found[-1].position) if more else None,
    }


@router.get("/head", openapi_extra=needs(Action.READ_ESTATE))
def get_head(connection: Reading) -> dict[str, Any]:
    """Get the position and hash of the newest event; stored elsewhere, it reveals a truncated log later."""
    return asdict(queries.head(connection))


@router.get("/verification", openapi_extra=needs(Action.READ_ESTATE))
def verify(
    connection: Reading,
    position: Annotated[
        int | None, Query(ge=0, le=LAST_POSITION, description="Position of an exported head.")
    ] = None,
    hash: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$", description="Hash of the same head.")] = None,
) -> dict[str, Any]:
    """Recompute the hash chain, and compare it with a head that was exported earlier."""
    if (position is None) != (hash is None):
        raise ValueInvalid("an exported head has a position and a hash; give both or neither")
    expected = Head(position, hash) if position is not None and hash is not None else None
    return asdict(queries.verification(connection, expected))


@router.get("/differences", openapi_extra=needs(Action.READ_ESTATE))
def list_differences(
    connection: Reading,
    page: Paging,
    before: Annotated[int, Query(ge=0, le=LAST_POSITION, alias="from", description="First position.")],
    after: Annotated[
        int | None, Query(ge=0, le=LAST_POSITION, alias="to", description="Second position; default: now.")
    ] = None,
) -> dict[str, Any]:
    """List the configuration differences between two positions, by kind and name.

    If `from` is the later position, the differences are those of going back.
    """
    head = queries.head(connection).position
    last = head if after is None else after
    if max(before, last) > head:
        raise ValueInvalid(f"position {max(before, last)} is in the future; the newest event is at {head}")
    found = differences(connection, before, last)
    rows = list(enumerate(found))
    return {
        "from": before,
        "to": last,
        **listed(rows, page, lambda row: row[0], lambda row: shown_difference(row[1])),
    }


def shown_difference(found: Difference) -> dict[str, Any]:
    """Return a difference in the form of an answer."""
    return {
        "kind": found.kind,
        "name": found.name,
        "change": found.change,
        "before": found.before,
        "after": found.after,
    }


def _start(
    after: After = 0,
    last_event_id: Annotated[str | None, Header(description="Position to continue after.")] = None,
) -> int:
    return _position(last_event_id, "Last-Event-ID") if last_event_id else after


@router.get("/stream", response_class=EventSourceResponse, openapi_extra=needs(Action.READ_TENANT))
async def stream_events(
    request: Request, services: SharedServices, start: Annotated[int, Depends(_start)]
) -> AsyncIterator[ServerSentEvent]:
    """Stream events as they happen: `id` is the position, `data` an item of GET /events.

    The stream ends when the caller may no longer read: its rights are checked with each poll.
    """
    place = start
    # Sent at once, so that a proxy or a browser sees an open stream although nothing happens yet.
    yield ServerSentEvent(comment="open")
    while not services.closing.is_set():
        found = await run_in_threadpool(_read, services, request.state.find_caller, place)
        if found is None:
            break
        page, place = found
        for event in page:
            yield ServerSentEvent(id=str(event.position), data=shown(event))
        if not page:
            await services.listener.wait_for_events_async(place, WAIT_SECONDS)


def shown(event: StoredEvent) -> dict[str, Any]:
    """Return an event in the form of an answer."""
    return {
        "position": event.position,
        "stream": event.stream,
        "version": event.version,
        "name": event.name,
        "schema_version": event.schema_version,
        "data": event.data,
        "metadata": asdict(event.metadata),
        "time": event.time.isoformat(),
        "hash": event.hash,
        "previous_hash": event.previous_hash,
    }


def _read(
    services: Services, find_caller: Callable[[], Caller | None], after: int
) -> tuple[list[StoredEvent], int] | None:
    """Return the next readable events and the position that they reach; None if the caller may no longer read."""
    caller = find_caller()
    if caller is None or not may_somewhere(caller, Action.READ_TENANT):
        return None
    with services.reading() as connection:
        page = queries.list_events(connection, after=after, limit=STREAM_PAGE, tenants=tenants_read(caller))
        # A page that is not full has everything up to the head, though the reader's own events end earlier.
        place = page[-1].position if len(page) == STREAM_PAGE else queries.head(connection).position
    return page, max(after, place)


def _position(text: str, what: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else -1
    if not 0 <= number <= LAST_POSITION:
        raise ValueInvalid(f"{what} must be a position from an earlier answer")
    return number
