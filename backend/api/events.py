"""`/events`: the event log as a list, as a stream of server-sent events, and whether its chain is whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.api.requests import MOST_ITEMS, Reading, SharedServices
from backend.api.services import Services
from backend.domain.errors import ValueInvalid
from backend.eventlog.recorded import Head, StoredEvent
from backend.queries import events as queries

router = APIRouter(prefix="/events", tags=["events"])

LAST_POSITION = 2**63 - 1
STREAM_PAGE = 500
# Also how late a stream notices that the process is to end.
WAIT_SECONDS = 1.0

After = Annotated[int, Query(ge=0, le=LAST_POSITION, description="Only events above this position.")]


@router.get("")
def list_events(
    connection: Reading,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items in the answer.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the answer before.")] = None,
    stream: Annotated[str | None, Query(description="Only event streams whose name starts so.")] = None,
) -> dict[str, Any]:
    """Events in their order."""
    if cursor is not None:
        after = _position(cursor, "cursor")
    if stream is not None and not (stream.isascii() and stream.isprintable()):
        raise ValueInvalid("no event stream has such a name")
    found = queries.list_events(connection, after=after, limit=limit + 1, stream_prefix=stream)
    more = len(found) > limit
    found = found[:limit]
    return {
        "items": [shown(event) for event in found],
        "next_cursor": str(found[-1].position) if more else None,
    }


@router.get("/head")
def get_head(connection: Reading) -> dict[str, Any]:
    """The newest event's position and hash; kept elsewhere, it shows later whether the log was cut."""
    return asdict(queries.head(connection))


@router.get("/verification")
def verify(
    connection: Reading,
    position: Annotated[int | None, Query(ge=0, le=LAST_POSITION, description="Of an exported head.")] = None,
    hash: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$", description="Of the same head.")] = None,
) -> dict[str, Any]:
    """Recompute the hash chain, and hold it against a head that was exported earlier."""
    if (position is None) != (hash is None):
        raise ValueInvalid("an exported head is a position and a hash; give both or none")
    expected = Head(position, hash) if position is not None and hash is not None else None
    return asdict(queries.verification(connection, expected))


def _start(
    after: After = 0,
    last_event_id: Annotated[str | None, Header(description="Where a broken stream goes on.")] = None,
) -> int:
    return _position(last_event_id, "Last-Event-ID") if last_event_id else after


@router.get("/stream", response_class=EventSourceResponse)
async def stream_events(
    services: SharedServices, start: Annotated[int, Depends(_start)]
) -> AsyncIterator[ServerSentEvent]:
    """Events as they happen: `id` is the position, `data` an item of GET /events."""
    place = start
    # Sent at once, so that a proxy or a browser sees the stream open although nothing happens yet.
    yield ServerSentEvent(comment="open")
    while not services.closing.is_set():
        page = await run_in_threadpool(_read, services, place)
        for event in page:
            place = event.position
            yield ServerSentEvent(id=str(place), data=shown(event))
        if not page:
            await services.listener.wait_for_events_async(place, WAIT_SECONDS)


def shown(event: StoredEvent) -> dict[str, Any]:
    """An event as answers show it."""
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


def _read(services: Services, after: int) -> list[StoredEvent]:
    with services.reading() as connection:
        return queries.list_events(connection, after=after, limit=STREAM_PAGE)


def _position(text: str, what: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else -1
    if not 0 <= number <= LAST_POSITION:
        raise ValueInvalid(f"{what} must be a position that was given before")
    return number
