"""The REST application: routers, access, problems, and what starts and stops with the process."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from backend.api.access import audit, grants, login, members, tenant_audit, users
from backend.api.clusters import adoption, clusters
from backend.api.distribution import edge_losses, trace
from backend.api.frame import health, problems, projections
from backend.api.frame.access import allowed, bearer_scheme
from backend.api.frame.gate import Gate
from backend.api.frame.metrics_port import metrics_served
from backend.api.frame.requests import known_parameters, plausible_body
from backend.api.frame.services import Services
from backend.api.history import events, measures, operations, undo
from backend.api.lab import drills
from backend.api.messages import messages, producing
from backend.api.offsets import groups, offsets
from backend.api.overview import overview
from backend.api.placement import placement_policies, placement_runs, placements
from backend.api.replication import replication
from backend.api.schemas import schemas
from backend.api.switch import discovery, switch_plans, switches
from backend.api.tenants import applications, stream_figures, streams, tenants
from backend.api.tree import trees
from backend.api.webhooks import webhooks
from backend.api.zones import route_epochs, zones
from backend.cluster_requests.stream_figures import FiguresReader
from backend.messages.reader import MessageReader
from backend.oidc.provider import provider_of
from backend.settings import Settings, settings
from backend.shared_routes import shared_routes
from backend.telemetry import Telemetry

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


@functools.cache
def routes() -> Sequence[BaseRoute]:
    """Build the routes of the REST API once for all applications of a process.

    FastAPI takes tenths of a second to work out what each route takes and answers.
    """
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {problems.MEDIA_TYPE: {"schema": _PROBLEM}}}
        for status, text in _REFUSALS.items()
    }
    api = APIRouter(
        prefix="/api/v1",
        responses=refusals,
        dependencies=[
            Depends(bearer_scheme),
            Depends(allowed),
            Depends(known_parameters),
            Depends(plausible_body),
        ],
    )
    for module in (
        discovery,  # routes are tried in turn, and this one is asked more than all others together
        overview,
        clusters,
        placement_policies,
        replication,
        adoption,
        trees,
        tenants,
        streams,
        stream_figures,
        applications,
        grants,
        events,
        undo,
        measures,
        operations,
        placements,
        placement_runs,
        drills,
        projections,
        trace,
        messages,
        producing,
        edge_losses,
        offsets,
        groups,
        switch_plans,
        switches,
        schemas,
        route_epochs,
        zones,
        webhooks,
        users,
        members,
        login,
        audit,
        tenant_audit,
    ):
        api.include_router(module.router)
    return shared_routes((api, health.router))


def create_app(config: Settings | None = None) -> FastAPI:
    """The application; it connects to its database when it starts, and waits for it if it is away."""
    services = Services(config or settings())
    reader = MessageReader(services.engine)
    telemetry = Telemetry(services.config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.start()
        with _closing_early(services.closing), metrics_served(services):
            yield
        reader.close()
        services.stop()
        telemetry.close()

    app = FastAPI(
        title="Treeline",
        version="1",
        description="The control plane that makes several Kafka clusters one.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=telemetry.of_requests,
    )
    app.state.services = services
    app.state.provider = provider_of(services.config)
    app.state.messages = reader
    app.state.figures = FiguresReader(services.config.probe_timeout_seconds)
    app.state.discovery = discovery.Discovery(services)
    app.router.routes.extend(routes())
    problems.install(app)
    app.add_middleware(Gate, services=services, telemetry=telemetry)
    if services.config.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=services.config.trusted_proxies)
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
