"""The control plane's discovery as clients see it: a real HTTP server whose answers the test decides."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-nobody-may-see"
DEADLINE_SECONDS = 60.0
FORMATS = {
    "cluster-1": {"topic": "{tenant}-{instance}-{environment}-{topic}", "group": "{tenant}-{environment}-{group}"},
    "cluster-2": {
        "topic": "{environment}.{tenant}.{instance}.{topic}",
        "group": "g-{tenant}-{environment}-{group}",
    },
}


class ControlPlane:
    """Answers discovery for one environment; `reports` has the last report of each client."""

    def __init__(self, servers: dict[str, str]) -> None:
        self.servers = servers
        self.changed = threading.Condition()
        self.answer: dict[str, Any] = {
            "tenant": "acme", "instance": "retail", "environment": "prod", "registry": None, "ttl_ms": 2000,
            "distributor_timeout_ms": 200, "distributor_distance": 2, "hold_ms": 15000, "mode": None,
            "switch": None, "next": None, "generation": 3, "phase": "active", **self._at("cluster-1"),
        }  # fmt: skip
        self.status, self.problem = 200, ""
        self.body: bytes | None = None
        self.reports: dict[str, dict[str, str]] = {}
        self.gone: list[str] = []
        self._port = 0  # any port first, and the same one after a restart
        self.start()

    def start(self) -> None:
        plane = self
        self.reports.clear()

        class Handler(_Handler):
            control_plane = plane

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        self.stopping = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, so that connections are refused."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def conf(self, **more: Any) -> dict[str, Any]:
        """Return the configuration of a client."""
        return {
            "treeline.url": self.url,
            "treeline.token": TOKEN,
            "treeline.tenant": "acme",
            "treeline.instance": "retail",
            "treeline.environment": "prod",
            "treeline.cache.directory": "",
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def says(self, **fields: Any) -> None:
        with self.changed:
            self.answer.update(fields)
            self.changed.notify_all()

    def hold(self, to: str | None = None) -> None:
        self.says(phase="hold", switch="s-1", next={"cluster": to, **self._at(to)} if to else None)

    def move(self, to: str, mode: str = "planned") -> None:
        self.says(
            phase="active",
            generation=self.answer["generation"] + 1,
            mode=mode,
            next=None,
            switch=None,
            **self._at(to),
        )

    def abort(self, *, offsets_were_set: bool = False) -> None:
        rise = 1 if offsets_were_set else 0
        self.says(phase="active", next=None, switch=None, mode=None, generation=self.answer["generation"] + rise)

    def wait_reported(self, phase: str, generation: int | None = None, clients: int = 1) -> None:
        """Wait until so many clients report a phase (in the present generation)."""
        wanted = str(self.answer["generation"] if generation is None else generation)

        def all_do() -> bool:
            return clients <= sum(
                r["phase"] == phase and r.get("generation") == wanted for r in self.reports.values()
            )

        self.wait(all_do)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        with self.changed:
            while not condition():
                assert time.monotonic() < deadline, f"{self.answer}: {self.reports}"
                self.changed.wait(0.1)

    def _at(self, cluster: str) -> dict[str, Any]:
        formats = {**FORMATS[cluster], "subject": "{subject}"}
        return {"cluster": cluster, "bootstrap_servers": self.servers[cluster], "formats": formats}


class _Handler(BaseHTTPRequestHandler):
    control_plane: ControlPlane
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        plane = self.control_plane
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._send(401, json.dumps({"detail": "the token is unknown"}).encode())
            return
        assert url.path == "/api/v1/discovery", url.path
        with plane.changed:
            plane.reports[query["client_id"]] = query
            plane.changed.notify_all()
            deadline = time.monotonic() + int(query.get("wait_ms", 0)) / 1000
            while time.monotonic() < deadline and not plane.stopping and not self._differs(query):
                plane.changed.wait(deadline - time.monotonic())
            if plane.stopping:
                self.close_connection = True
                return
            status, body = plane.status, plane.body
            if status != 200:
                body = json.dumps({"detail": plane.problem}).encode()
        self._send(status, json.dumps(plane.answer).encode() if body is None else body)

    def do_DELETE(self) -> None:
        with self.control_plane.changed:
            client = urlsplit(self.path).path.rsplit("/", 1)[-1]
            self.control_plane.gone.append(client)
            self.control_plane.reports.pop(client, None)
            self.control_plane.changed.notify_all()
        self._send(204, b"")

    def _differs(self, query: dict[str, str]) -> bool:
        answer = self.control_plane.answer
        satisfied = {"active": ("active",), "hold": ("held", "closed")}[answer["phase"]]
        return query.get("generation") != str(answer["generation"]) or query["phase"] not in satisfied

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the client was closed meanwhile
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass
