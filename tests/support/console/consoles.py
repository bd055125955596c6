"""A control plane with its pages, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from pydantic import SecretStr

from backend import web
from backend.api.app import create_app
from backend.estate.ports import free_ports
from backend.eventlog import listen
from backend.registry.app import with_registries
from backend.registry.directory import Directory
from backend.settings import PROJECT_ROOT, Settings
from tests.eventually import eventually
from tests.support.api import http
from tests.support.api.rest_client import RestClient

TOKEN = "a token of the tests, as long as real ones are"
SECRETS_KEY = "a key of the tests that seals secrets"


@dataclass(frozen=True)
class Console:
    """A control plane with its pages."""

    url: str
    token: str
    registries: Directory | None = None
    """Schemas that it has read, if it runs in this process."""

    @property
    def rest(self) -> RestClient:
        return RestClient(self.url, self.token)

    def login_link(self) -> str:
        path: str = self.rest.ok("POST", "/login-links")["url"].partition("/login")[2]
        return f"{self.url}/login{path}"

    def get(self, path: str) -> httpx2.Response:
        """Request a page, by token and without a browser."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return http.get(f"{self.url}{path}", headers=headers)


@contextmanager
def serve_here(database_url: str, *, with_schemas: bool = False, **settings: Any) -> Iterator[Console]:
    """Serve the API and console on a thread of the test process, which starts at once.

    It waits only briefly for clusters that are down, which most tests have.
    """
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    known = {
        "database_url": database_url,
        "admin_token": SecretStr(TOKEN),
        "url": url,
        "probe_timeout_seconds": 0.5,
        "secrets_key": SecretStr(SECRETS_KEY),
    }
    app = create_app(Settings(**{**known, **settings}))
    web.add_pages(app)
    served = with_registries(app, app.state.services)
    app.state.registries = served
    # Following clusters that are down costs their threads' time; few pages need it.
    server = uvicorn.Server(
        uvicorn.Config(
            served if with_schemas else app, "127.0.0.1", port, log_level="warning", proxy_headers=False
        )
    )
    thread = threading.Thread(target=server.run)
    with pytest.MonkeyPatch.context() as patch:
        # Hundreds of tests wait for its end.
        patch.setattr(listen, "STOP_SECONDS", 0.05)
        thread.start()
        try:
            eventually(lambda: server.started, f"{url} is served")
            yield Console(url, TOKEN, served.directory)
        finally:
            app.state.services.closing.set()
            server.should_exit = True
            thread.join()


@contextmanager
def serve(
    database_url: str, log: Path, port: int | None = None
) -> Iterator[tuple[Console, subprocess.Popen[bytes]]]:
    """Serve the API and console in a process of their own."""
    port = port or free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TREELINE_")}
    environment |= {"TREELINE_DATABASE_URL": database_url, "TREELINE_ADMIN_TOKEN": TOKEN, "TREELINE_URL": url}
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "backend.asgi:app",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-proxy-headers",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROJECT_ROOT, env=environment, stdout=output, stderr=output)

    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return http.get(f"{url}/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    try:
        eventually(ready, f"{url} is ready")
        yield Console(url, TOKEN), process
    finally:
        process.kill()
        process.wait()
