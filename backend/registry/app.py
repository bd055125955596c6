"""`/registries/{cluster}/...`: plain ASGI in front of the rest of the API.

Serializers request schemas by id at every start, thousands at once: such an answer is a dictionary look-up,
encoded once for each id. Answers and errors have the forms of Confluent's API, which clients rely on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import anyio
import structlog
from prometheus_client.metrics_core import Metric
from sqlalchemy import Connection, Engine
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from backend import callers
from backend.domain.access.access import Caller
from backend.domain.base.errors import ClusterUnreachable, DomainError
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.listen import EventListener
from backend.kafka.base.errors import KafkaCallFailed
from backend.login_limits import ATTEMPTS_SECONDS, limits_of, network_of
from backend.registry import refusals, routes
from backend.registry.access import Access, is_guessable
from backend.registry.calls import Call, Text, parse_query
from backend.registry.directory import Directory, Registry
from backend.registry.records import dump_json
from backend.registry.refusals import RegistryError
from backend.registry.routes import Work
from backend.settings import Settings

logger = structlog.get_logger("registry")

PREFIX = "/registries/"
MOST_BODY_BYTES = 4 * 1024 * 1024
FIRST_READ_SECONDS = 4.0
_LONGEST_CLUSTER = 249
_MEDIA_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_REQUEST_TYPES = (*_MEDIA_TYPES, "application/octet-stream")
_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
]


class Shared(Protocol):
    """Services that the registries need of their process; implemented by `backend.api.frame.services.Services`."""

    config: Settings
    engine: Engine
    listener: EventListener
    collectors: list[Callable[[], Iterator[Metric]]]

    def looking(self) -> AbstractContextManager[Connection]:
        """Open a connection for one statement."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a connection with one snapshot of the database."""


def with_registries(app: ASGIApp, shared: Shared) -> Registries:
    """Return the application with the registries of all clusters in front of it."""
    directory = Directory(shared.engine, shared.listener, shared.config.schemas_topic)
    shared.collectors.append(directory.metrics)
    return Registries(app, directory, shared.config, Access(shared, shared.config), shared.engine)


class Registries:
    """Answers requests below PREFIX; the directory lives as long as the application behind it."""

    def __init__(
        self, app: ASGIApp, directory: Directory, config: Settings, access: Access, engine: Engine | None = None
    ) -> None:
        """Build it. `engine`: the database in which wrong tokens are recorded for the audit."""
        self._engine = engine
        self.directory = directory
        self.access = access
        self._app = app
        self._config = config
        answering: Any = self._answer  # uvicorn's types of ASGI are not Starlette's
        if config.trusted_proxies:
            # The application's own middleware is never reached by requests for registries.
            answering = ProxyHeadersMiddleware(answering, trusted_hosts=config.trusted_proxies)
        self._answering: ASGIApp = answering

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await self._answering(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def done(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self.directory.start()
            elif message["type"].startswith("lifespan.shutdown"):
                await asyncio.to_thread(self.directory.join)
            await send(message)

        async def to_do() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.directory.stop()
            return message

        await self._app(scope, to_do, done)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value for name, value in scope["headers"] if name in _READ_HEADERS}
        request_id = callers.request_id(headers.get(b"x-request-id", b"").decode("latin-1"))
        status, more, media_type = 200, {}, _MEDIA_TYPES[0]
        try:
            by_user = self._at_hand(scope, headers) is None
            media_type = _media_type(headers.get(b"accept", b"*/*"))
            body = await self._found(scope, headers, receive, by_user=by_user)
        except RegistryError as refusal:
            if refusal.status == 401 and b"authorization" in headers and self._engine is not None:
                refusal = await asyncio.to_thread(self._wrong_token, self._engine, scope, refusal)
            body, status, more = dump_json(refusal.body()), refusal.status, refusal.headers
        except Exception as error:
            logger.error("request failed", request_id=request_id, path=scope["path"], exc_info=error)
            sentence = f"Internal error in Treeline; see the log under request id {request_id}"
            body, status = dump_json({"error_code": 500, "message": sentence}), 500
        start_headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode()),
            *_ALWAYS,
            *((name.lower().encode(), value.encode()) for name, value in more.items()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": start_headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _wrong_token(self, engine: Engine, scope: Scope, refusal: RegistryError) -> RegistryError:
        """Count a wrong token with those of the API; return the answer to it."""
        limits = limits_of(self._app)
        came_from = callers.provenance_of(scope, "")
        if limits.tokens.blocked(network_of(came_from.address)):
            return refusals.too_many_tokens(ATTEMPTS_SECONDS)
        with contextlib.suppress(DomainError):
            limits.wrong_token(engine, came_from)
        return refusal

    def _at_hand(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller | None:
        authorization = headers.get(b"authorization", b"")
        if authorization and is_guessable(authorization) and self._engine is not None:
            address = network_of(callers.provenance_of(scope, "").address)
            if limits_of(self._app).tokens.blocked(address):
                raise refusals.too_many_tokens(ATTEMPTS_SECONDS)
        return self.access.at_hand(authorization, on_this_machine=callers.is_on_this_machine(scope))

    async def _found(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, *, by_user: bool) -> bytes:
        path: bytes = scope["raw_path"][len(scope.get("root_path", "")) + len(PREFIX) :]
        cluster, _, tail = path.partition(b"/")
        question = b"%b?%b" % (tail, scope["query_string"])
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        name, sees = cluster.decode("latin-1"), None
        if by_user:
            sees = await self.access.asked(headers.get(b"authorization", b""), name)
        if sees is not None and not sees.sees_all:
            question = sees.mark and sees.mark + question
        registry = self.directory.find(name)
        if registry is not None and method == "GET" and question:
            known = registry.mirror.answer(question)
            if known is not None:
                return known
        route, given = routes.find(method, _parts(tail))
        raw_body = b"" if method == "GET" else await _body(headers, receive)
        if registry is None:
            registry = await self._refreshed(name)
        await _wait_until_read(registry)
        query = _query(scope["query_string"])
        call = Call(registry, self._address(scope, headers), query, raw_body, sees)
        try:
            return await self._worked(route, call, given, question)
        except RegistryError as refusal:
            if refusal.code != refusals.SCHEMA_UNKNOWN or method != "GET":
                raise
        # No answer yet: a consumer may get a record before this process has read the record's schema.
        await _read_on(registry)
        return await self._worked(route, call, given, question)

    async def _worked(self, route: routes.Route, call: Call, given: list[str], question: bytes) -> bytes:
        """Run a handler. `question`: the key under which the answer may be cached; empty if it may not be."""
        registry, is_look = call.registry, route.work is Work.LOOK
        work = partial(_run, route, call, given, question if is_look else b"")
        # Conversion to another format must not block the event loop.
        at_once = is_look and not call.query.get("format")
        if at_once and registry.mirror.lock.try_read():
            try:
                return _look(route, call, given, question)
            finally:
                registry.mirror.lock.release()
        return await anyio.to_thread.run_sync(work, limiter=registry.threads)

    async def _refreshed(self, cluster: str) -> Registry:
        """Refresh the directory and return the registry: the cluster may be newer than this process knows."""
        found = None
        if len(cluster) <= _LONGEST_CLUSTER and cluster.isascii():
            try:
                await asyncio.to_thread(self.directory.refresh)
            except DatabaseUnavailable as error:
                raise refusals.store_failed(error.detail) from error
            found = self.directory.find(cluster)
        if found is None:
            raise refusals.cluster_unknown(cluster)
        return found

    def _address(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        host = headers.get(b"host", b"").decode("latin-1")
        base = self._config.url or f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}"
        return f"{base.rstrip('/')}{PREFIX}".rstrip("/")


_READ_HEADERS = frozenset(
    (b"accept", b"authorization", b"content-length", b"content-type", b"host", b"x-request-id")
)


def _parts(tail: bytes) -> list[str]:
    """Split a path into its parts, which may contain quoted slashes. Raises RegistryError."""
    try:
        parts = [unquote_to_bytes(part).decode() for part in tail.split(b"/")]
    except UnicodeDecodeError:
        raise RegistryError(404, "The path is not UTF-8") from None
    return parts[:-1] if parts[-1] == "" else parts


def _query(raw: bytes) -> dict[str, str]:
    try:
        return parse_query(raw)
    except ValueError as error:
        raise RegistryError(400, f"The query cannot be read: {error}") from None


async def _wait_until_read(registry: Registry) -> None:
    """Wait until a registry was read. Raises RegistryError.

    After a start reading takes a moment; a cluster that is away says so at once.
    """
    mirror = registry.mirror
    deadline = time.monotonic() + FIRST_READ_SECONDS
    while not mirror.ready:
        if mirror.reason is not None or time.monotonic() > deadline:
            raise refusals.not_read_yet(mirror.endpoint.name, mirror.reason or "reading is in progress")
        await asyncio.sleep(0.02)


async def _read_on(registry: Registry) -> None:
    """Read the records that the schemas topic has by now, if its cluster answers."""
    with contextlib.suppress(KafkaCallFailed, ClusterUnreachable):
        await anyio.to_thread.run_sync(registry.mirror.read_on, FIRST_READ_SECONDS, limiter=registry.threads)


def _run(route: routes.Route, call: Call, given: list[str], question: bytes) -> bytes:
    """Run a handler on a thread."""
    if route.work is Work.THREAD:
        return _encoded(route.handle(call, *given))
    with call.sharing() if route.work is Work.LOOK else call.registry.mirror.lock.parsing():
        return _look(route, call, given, question)


def _look(route: routes.Route, call: Call, given: list[str], question: bytes) -> bytes:
    answer = _encoded(route.handle(call, *given))
    if question:
        call.registry.mirror.keep_answer(question, answer)
    return answer


def _encoded(answer: Any) -> bytes:
    return answer.encode() if isinstance(answer, Text) else dump_json(answer)


async def _body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """Return the whole body. Raises RegistryError for one that is too large, or whose type is not JSON."""
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if kind and kind not in _REQUEST_TYPES:
        raise RegistryError(415, f"Content-Type must be {_MEDIA_TYPES[0]} or {_MEDIA_TYPES[2]}, not {kind[:60]!r}")
    length = headers.get(b"content-length", b"0")
    parts, size = [], int(length[:20]) if length.isdigit() else 0
    too_large = RegistryError(413, f"The body must have at most {MOST_BODY_BYTES} bytes")
    if size > MOST_BODY_BYTES:
        raise too_large
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RegistryError(400, "The request ended before its body did")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BODY_BYTES:
            raise too_large
        if not message.get("more_body", False):
            return b"".join(parts)


@lru_cache(maxsize=256)
def _media_type(accept: bytes) -> str:
    """Return the media type that the caller prefers. Raises RegistryError."""
    best, best_weight = None, 0.0
    for item in accept.decode("latin-1").lower().split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (part.strip() for part in item.split(";"))
        weight = _weight(parameters)
        offered = _MEDIA_TYPES[0] if name in ("*/*", "application/*") else name
        if offered in _MEDIA_TYPES and weight > best_weight:
            best, best_weight = offered, weight
    if best is None:
        raise RegistryError(406, f"Available media types are {', '.join(_MEDIA_TYPES)}")
    return best


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
