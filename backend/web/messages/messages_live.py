"""`…/-messages/-live`: new messages of a stream as server-sent events, each with their lines of the list."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from anyio import CancelScope
from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.domain.access.access import Action
from backend.domain.base.errors import DomainError
from backend.messages.facts import MessageFacts
from backend.messages.live_tail import LiveTail
from backend.messages.reader import MessageReader
from backend.messages.request import MessageRequest
from backend.messages.tail_position import LONGEST
from backend.messages.visible_schemas import schemas_of
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter, may_still
from backend.web.frame.services import Shared, Viewer
from backend.web.messages.message_view import message_view
from backend.web.messages.messages_page import MESSAGES, TEMPLATE, Form, stream_facts
from backend.web.tenants.stream_page import Named

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RETRY_MILLISECONDS = 2000
STREAM_SECONDS = 600.0
"""Seconds after which a stream ends as a safeguard; the browser opens another one."""
_WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class _Followed:
    user: str
    tenant: str
    facts: MessageFacts
    wanted: MessageRequest
    last_event_id: str
    """Id of the last event that the browser saw, if it reconnects."""


def _followed(
    name: Named,
    services: Shared,
    viewer: Viewer,
    asked: Form,
    last_event_id: Annotated[str, Header(max_length=LONGEST)] = "",
) -> _Followed:
    caller = enter(viewer, Action.READ_MESSAGES, name.tenant)
    facts = stream_facts(services, name, asked.cluster)
    return _Followed(caller.name, name.tenant, facts, asked.parsed, last_event_id)


@router.get(MESSAGES + "/-live", response_class=EventSourceResponse)
async def messages_live(
    request: Request, services: Shared, followed: Annotated[_Followed, Depends(_followed)]
) -> AsyncIterator[ServerSentEvent]:
    """Send `messages` with new lines of the list, `skipped` with their number, `beat` in between.

    A browser that reconnects continues after the last event that it saw; `restarted` says why it does not.
    `ended` says why no more come: the viewer may no longer see them, or the cluster is away.
    """
    yield ServerSentEvent(comment="open", retry=RETRY_MILLISECONDS)
    until, skipped = time.monotonic() + STREAM_SECONDS, 0
    try:
        async with _opened(request, followed) as tail:
            if tail.note:
                yield ServerSentEvent(event="restarted", raw_data=tail.note)
            while time.monotonic() < until and not services.closing.is_set():
                if not await run_in_threadpool(may_still, request, Action.READ_MESSAGES, followed.tenant):
                    yield ServerSentEvent(event="ended", raw_data="You may no longer read these messages.")
                    return
                lines = await run_in_threadpool(_new_lines, tail, followed.facts)
                if lines:
                    yield ServerSentEvent(event="messages", raw_data=lines, id=tail.position)
                if tail.skipped != skipped:
                    skipped = tail.skipped
                    yield ServerSentEvent(event="skipped", raw_data=str(skipped))
                if not lines:
                    yield ServerSentEvent(event="beat", raw_data="1", id=tail.position)
    except DomainError as error:
        yield ServerSentEvent(event="ended", raw_data=" ".join(error.detail.split()))


@asynccontextmanager
async def _opened(request: Request, followed: _Followed) -> AsyncIterator[LiveTail]:
    """Open the tail on a thread, and close it on one, also if the viewer has left meanwhile."""
    reader: MessageReader = request.app.state.messages
    schemas = schemas_of(request.app, followed.facts)
    opening = reader.tail(followed.user, followed.facts, followed.wanted, schemas, followed.last_event_id)
    on_thread = ExitStack()
    try:
        yield await run_in_threadpool(on_thread.enter_context, opening)
    finally:
        with CancelScope(shield=True):
            await run_in_threadpool(on_thread.close)


def _new_lines(tail: LiveTail, facts: MessageFacts) -> str:
    """Return the list's lines of new messages, the newest first; empty if none came."""
    views = [message_view(facts, each) for each in reversed(tail.read(_WAIT_SECONDS))]
    return templates.block(TEMPLATE, "messages", {"items": views}) if views else ""
