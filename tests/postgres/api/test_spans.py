"""Spans of requests reach the OTLP collector, describe the request, and contain no secrets."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from backend.api.app import create_app
from backend.domain.base.errors import ValueInvalid
from backend.estate.ports import free_ports
from backend.settings import Settings
from backend.spans import part
from backend.telemetry import Telemetry
from tests.eventually import eventually
from tests.support.api import http
from tests.support.console.consoles import Console, serve_here
from tests.support.database.postgres import Database

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@dataclass
class Collector:
    """Data that was sent to the collector: spans by name, their service, and all bytes."""

    url: str
    spans: list[Any] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    sent: bytes = b""
    paths: set[str] = field(default_factory=set)

    def take(self, path: str, body: bytes) -> None:
        told = ExportTraceServiceRequest.FromString(body)
        for resource in told.resource_spans:
            self.services.add(attributes(resource.resource)["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.sent += body
        self.paths.add(path)

    def of(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(
                self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with collecting() as found:
        yield found


@pytest.fixture
def told(database: Database, collector: Collector) -> Iterator[Console]:
    with serve_here(database.url, otlp_endpoint=f"{collector.url}/") as console:
        yield console


def test_a_change_is_a_span_with_what_it_waited_for(
    told: Console, collector: Collector, logged_events: list[dict[str, Any]]
) -> None:
    headers = {
        "Authorization": f"Bearer {told.token}",
        "X-Request-ID": "request-1",
        "traceparent": f"00-{TRACE}-{PARENT}-01",
    }
    assert http.post(f"{told.url}/api/v1/tenants", json={"name": "acme"}, headers=headers).status_code == 201
    assert [(line["trace_id"], line["request_id"]) for line in logged_events] == [(TRACE, "request-1")]
    eventually(lambda: collector.of("POST /api/v1/tenants"), "the span is sent")
    (request,) = collector.of("POST /api/v1/tenants")
    said = attributes(request)
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert (said["http.route"], said["http.response.status_code"]) == ("/api/v1/tenants", 201)
    assert (said["treeline.request_id"], said["treeline.actor"]) == ("request-1", "admin")
    inner = {span.name: span for span in collector.spans if span.parent_span_id == request.span_id}
    assert list(inner) == ["wait for the log", "project", "commit"]
    head = told.rest.ok("GET", "/events/head")["position"]
    expected = {"treeline.stream": "tenant-acme", "treeline.position": head, "treeline.events": 1}
    assert attributes(inner["project"]) == expected
    assert collector.services == {"treeline-api"} and collector.paths == {"/v1/traces"}


def test_a_tenants_path_names_the_tenant_and_a_failure_its_status(told: Console, collector: Collector) -> None:
    assert told.rest("GET", "/tenants/nobodys").status_code == 404
    assert told.rest("POST", "/tenants", {"name": "-"}).status_code == 422
    eventually(lambda: collector.of("POST /api/v1/tenants"), "the span is sent")
    (missing,) = collector.of("GET /api/v1/tenants/{tenant}")
    assert attributes(missing)["treeline.tenant"] == "nobodys"
    assert attributes(missing)["http.response.status_code"] == 404
    (refused,) = collector.of("POST /api/v1/tenants")
    assert attributes(refused)["http.response.status_code"] == 422


def test_no_secret_and_no_query_is_sent(told: Console, collector: Collector) -> None:
    link = told.login_link()
    client = http.client(base_url=told.url)
    assert client.get(link).status_code == 303
    key = "a password that nobody is to see"
    assert client.get("/find?q=something-looked-for").status_code == 200
    assert told.rest("POST", "/users", {"name": "ada", "password": key, "role": 7}).status_code == 422
    eventually(lambda: collector.of("POST /api/v1/users"), "the spans are sent")
    (login,) = [span for span in collector.spans if attributes(span).get("url.path") == "/login"]
    assert attributes(login)["url.query"] == "left out"
    cookie = next(iter(client.cookies.values()))
    for secret in (link.partition("code=")[2], told.token, key, cookie, "something-looked-for"):
        assert len(secret) > 9 and secret.encode() not in collector.sent


def test_a_part_that_fails_says_so_without_the_text_of_what_failed(collector: Collector) -> None:
    telemetry = Telemetry(Settings(otlp_endpoint=collector.url))
    provider = telemetry.of_requests["tracer_provider"]
    assert provider is not None
    with (
        pytest.raises(ValueError, match="a row"),
        provider.get_tracer("test").start_as_current_span("request", record_exception=False) as around,
        telemetry.noting("request-1"),
    ):
        around.set_attribute("about", "test")
        with part("project"):
            raise ValueError("the secret of a row")
    telemetry.close()
    (failed,) = collector.of("project")
    assert failed.status.code == 2 and failed.status.message == "" and list(failed.events) == []
    assert attributes(failed)["error.type"] == "ValueError"


def test_what_is_asked_all_the_time_is_not_told(told: Console, collector: Collector) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        answer = http.get(f"{told.url}{path}", headers={"Authorization": f"Bearer {told.token}"})
        assert answer.status_code == 200
    told.rest.ok("GET", "/me")
    eventually(lambda: collector.of("GET /api/v1/me"), "the span is sent")
    paths = {attributes(span).get("url.path") for span in collector.spans}
    assert not paths & {"/livez", "/readyz", "/metrics"}


def test_variables_of_opentelemetry_count(
    database: Database, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "treeline-eu")
    with serve_here(database.url, otlp_endpoint=collector.url) as console:
        console.rest.ok("GET", "/me")
        eventually(lambda: collector.services == {"treeline-eu"}, "the spans have the name that the variable says")


@pytest.mark.nightly  # a collector that is away
def test_who_collects_may_be_away_and_comes_back(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    away = f"http://127.0.0.1:{free_ports(1)[0]}"
    with serve_here(database.url, otlp_endpoint=away) as console:
        for number in range(30):
            console.rest.ok("POST", "/tenants", {"name": f"t{number}"})
        assert len(console.rest.ok("GET", "/tenants")["items"]) == 30


def test_what_is_sent_last_is_sent_before_the_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with collecting() as collector:
        with serve_here(database.url, otlp_endpoint=collector.url) as console:
            console.rest.ok("GET", "/me")
            assert collector.spans == []
        assert len(collector.of("GET /api/v1/me")) == 1


def test_without_an_endpoint_nothing_is_sent(
    database: Database, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    # FastAPI's own way, which would record queries.
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with serve_here(database.url) as console:
        console.rest.ok("GET", "/me")
    assert collector.sent == b""


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://collector", "://", "grpc://127.0.0.1:4317"])
def test_what_is_no_address_is_refused_by_name(endpoint: str) -> None:
    with pytest.raises(ValueInvalid, match="TREELINE_OTLP_ENDPOINT is an http or https address"):
        create_app(Settings(otlp_endpoint=endpoint))
