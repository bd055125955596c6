"""The REST application: routers, access, problems, and what starts and stops with the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from backend.api import (
    adoption,
    applications,
    clusters,
    discovery,
    edge_losses,
    events,
    grants,
    health,
    login,
    members,
    offsets,
    operations,
    problems,
    projections,
    schemas,
    streams,
    switch_plans,
    switches,
    tenants,
    trace,
    trees,
    users,
)
from backend.api.access import allowed, bearer_scheme
from backend.api.gate import Gate
from backend.api.requests import known_parameters
from backend.api.services import Services
from backend.settings import Settings, settings

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {
                    "pointer": {"type": "string"},
                    "detail": {"type": "string"},
                    "parameter": {"type": "string"},
                },
            },
        },
    },
}
_REFUSALS = {
    400: "The body is not JSON",
    401: "No valid token",
    403: "The role does not allow it",
    404: "Unknown",
    409: "Exists, or the present state forbids it",
    412: "If-Match is stale",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    422: "The content breaks a rule",
    503: "The database is away or busy",
}


def create_app(config: Settings | None = None) -> FastAPI:
    """The application; it connects to its database when it starts, and waits for it if it is away."""
    services = Services(config or settings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.start()
        with _closing_early(services.closing):
            yield
        services.stop()

    app = FastAPI(
        title="Treeline",
        version="1",
        description="The control plane that makes several Kafka clusters one.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        lifespan=lifespan,
    )
    app.state.services = services
    app.state.discovery = discovery.Discovery(services)
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {problems.MEDIA_TYPE: {"schema": _PROBLEM}}}
        for status, text in _REFUSALS.items()
    }
    api = APIRouter(
        prefix="/api/v1",
        responses=refusals,
        dependencies=[Depends(bearer_scheme), Depends(allowed), Depends(known_parameters)],
    )
    for module in (
        discovery,  # routes are tried in turn, and this one is asked more than all others together
        clusters,
        adoption,
        trees,
        tenants,
        streams,
        applications,
        grants,
        events,
        operations,
        projections,
        trace,
        edge_losses,
        offsets,
        switch_plans,
        switches,
        schemas,
        users,
        members,
        login,
    ):
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(health.router)
    problems.install(app)
    app.add_middleware(Gate, services=services)
    return app


@contextmanager
def _closing_early(closing: threading.Event) -> Iterator[None]:
    """Set `closing` at the first signal to end.

    The server waits for open answers before it ends the lifespan, and an event stream has no end of its own: it
    has to hear of the signal itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handler(number: int, frame: FrameType | None) -> None:
        closing.set()
        following = before[signal.Signals(number)]
        if callable(following):
            following(number, frame)

    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, following in before.items():
            signal.signal(number, following)
