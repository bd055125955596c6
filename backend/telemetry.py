"""Export of requests' spans by OpenTelemetry (decision 55).

FastAPI creates the span of a request, with its route and status, by the semantic conventions. This module decides
what is recorded, what is left out, and where spans are sent. Without an endpoint nothing is recorded, and nothing
of the SDK is imported.
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
"""Paths without spans: requested every few seconds, and the same each time."""
_END_SECONDS = 2.0
"""Seconds that an ending process waits for the collector, which may be down."""


class Telemetry:
    """Telemetry of one application. It owns a thread, so create it after any fork."""

    def __init__(self, config: Settings) -> None:
        """Set up the exporter, if an endpoint is set; raises ValueInvalid if that is no http or https URL."""
        self._provider = None if config.otlp_endpoint is None else _provider(config.otlp_endpoint)
        self._tracer = self._provider.get_tracer("treeline") if self._provider is not None else None

    @property
    def of_requests(self) -> TelemetryConfig:
        """Return FastAPI's part of the configuration, without logs: its log of a refused body shows the body."""
        silent = TelemetryConfig(
            tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False
        )
        if self._provider is None:
            return silent
        return {**silent, "tracing": True, "tracer_provider": self._provider, "exclude": _is_not_told}

    @contextmanager
    def noting(self, request_id: str, **more: str) -> Iterator[dict[str, str]]:
        """Attach these ids to the span of the current request and record its parts.

        Yields the fields that the request's log lines should have, so that they can be found by its trace.
        """
        span = trace.get_current_span()
        if self._tracer is None or not span.is_recording():
            yield {}
            return
        for name, value in {"request_id": request_id, **more}.items():
            span.set_attribute(f"treeline.{name}", value)
        with recording(self._tracer):
            yield {"trace_id": trace.format_trace_id(span.get_span_context().trace_id)}

    def close(self) -> None:
        """Flush pending spans, waiting `_END_SECONDS` at most."""
        if self._provider is not None:
            # The exporter itself would retry for half a minute.
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
        """Redacts URL queries, which may hold a login code or search terms."""

        def on_start(self, span: Span, parent_context: Any = None) -> None:
            if "url.query" in (getattr(span, "attributes", None) or {}):
                span.set_attribute("url.query", LEFT_OUT)

    resource = Resource.create({"service.version": VERSION})
    if str(resource.attributes["service.name"]).startswith("unknown_service"):  # no environment variable sets it
        resource = resource.merge(Resource({"service.name": SERVICE}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(Unsaid())
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _is_not_told(scope: MutableMapping[str, Any]) -> bool:
    path: str = scope.get("path", "")
    return path.startswith(_NOT_TOLD)
