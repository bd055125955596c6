"""Where spans of requests go, by OpenTelemetry, for who collects them (design: console.md, "Operations").

FastAPI makes the span of a request, with its route and status, as the semantic conventions have it. Here is what
it is to tell and what not, and who takes it. Without an endpoint nothing is recorded, and nothing of the SDK is
imported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.trace import Span

from backend.domain.base.errors import ValueInvalid
from backend.program_version import VERSION
from backend.settings import Settings
from backend.spans import recording
from backend.url_schemes import scheme_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

SERVICE = "treeline-api"
LEFT_OUT = "left out"
_NOT_TOLD = ("/livez", "/readyz", "/metrics", "/static/")
"""Asked every few seconds, and the same each time."""
_END_SECONDS = 2.0
"""What a process that ends waits for who collects, and may be away."""


class Telemetry:
    """Of one application. It has a thread: made after any fork."""

    def __init__(self, config: Settings) -> None:
        """Raises ValueInvalid for what is no address."""
        self._provider = None if config.otlp_endpoint is None else _provider(config.otlp_endpoint)
        self._tracer = self._provider.get_tracer("treeline") if self._provider is not None else None

    @property
    def of_requests(self) -> TelemetryConfig:
        """What FastAPI is to tell. No logs: its own of a refused body have the body in them."""
        silent = TelemetryConfig(
            tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False
        )
        if self._provider is None:
            return silent
        return {**silent, "tracing": True, "tracer_provider": self._provider, "exclude": _is_not_told}

    @contextmanager
    def noting(self, request_id: str, **more: str) -> Iterator[dict[str, str]]:
        """Say of the request that is under way what it is found by, and record its parts. Yields what its lines in
        the log are to have, to be found by as well."""
        span = trace.get_current_span()
        if self._tracer is None or not span.is_recording():
            yield {}
            return
        for name, value in {"request_id": request_id, **more}.items():
            span.set_attribute(f"treeline.{name}", value)
        with recording(self._tracer):
            yield {"trace_id": trace.format_trace_id(span.get_span_context().trace_id)}

    def close(self) -> None:
        """Send what there is, if it is taken soon."""
        if self._provider is not None:
            # It would try for half a minute.
            ending = threading.Thread(target=self._provider.shutdown, name="telemetry", daemon=True)
            ending.start()
            ending.join(_END_SECONDS)


def _provider(endpoint: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if scheme_of(endpoint) not in ("http", "https"):
        raise ValueInvalid("TREELINE_OTLP_ENDPOINT is an http or https address")

    class Unsaid(SpanProcessor):
        """Queries may have the code of a login, or what somebody looks for."""

        def on_start(self, span: Span, parent_context: Any = None) -> None:
            if "url.query" in (getattr(span, "attributes", None) or {}):
                span.set_attribute("url.query", LEFT_OUT)

    resource = Resource.create({"service.version": VERSION})
    if str(resource.attributes["service.name"]).startswith("unknown_service"):  # no variable gives it
        resource = resource.merge(Resource({"service.name": SERVICE}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(Unsaid())
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _is_not_told(scope: MutableMapping[str, Any]) -> bool:
    path: str = scope.get("path", "")
    return path.startswith(_NOT_TOLD)
