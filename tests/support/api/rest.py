"""The REST application on a real database, called in-process."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import structlog
from fastapi.testclient import TestClient
from httpx2 import Client, Response
from pydantic import SecretStr

from backend import dispatch, logs
from backend.api.app import create_app
from backend.estate.ports import free_ports
from backend.login_limits import LoginLimits
from backend.settings import PROJECT_ROOT, Settings
from tests.support.api import http
from tests.support.database.postgres import TEMPLATE, Content, Database, RunningPostgres

logs.configure()
# A logger keeps the output that it first wrote to: in a process with commands, the control plane would keep
# theirs.
structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.__stdout__))

WAIT_SECONDS = 120
TOKEN = "a token of the tests, as long as real ones are"
SECRETS_KEY = "a key of the tests that seals passwords"
NOBODY_LISTENS = "127.0.0.1:9"  # the discard port; nothing answers there


class Rest:
    """A client of the API; paths are below /api/v1 unless they begin with a dot."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        url = path.removeprefix(".") if path.startswith(".") else f"/api/v1{path}"
        sent = {"Authorization": f"Bearer {TOKEN}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        content = None
        if body is not None:
            content, sent = json.dumps(body).encode(), {"Content-Type": "application/json"} | sent
        return self.client.request(method, url, headers=sent, follow_redirects=False, content=content)

    def forget_wrong_tokens(self) -> None:
        """Reset the count of wrong tokens from the tests' address: they get 401 again."""
        self.client.app.state.login_limits = LoginLimits()  # type: ignore[attr-defined]

    def head(self) -> int:
        """Return the event log's newest position."""
        position: int = self("GET", "/events/head").json()["position"]
        return position

    def add_clusters(self, *names: str, **fields: Any) -> None:
        """Add clusters that are offline."""
        for name in names:
            body = {"name": name, "bootstrap_servers": NOBODY_LISTENS, "accept_offline": True, **fields}
            answer = self("POST", "/clusters", body)
            assert answer.status_code == 201, answer.text

    def set_up(self) -> str:
        """Create three clusters in a tree, and acme/retail/prod; return the environment's path."""
        self.add_clusters("c1", "c2", "c3")
        for method, path, body in (
            ("PUT", "/trees/main", TREE),
            ("POST", "/tenants", {"name": "acme"}),
            ("POST", "/tenants/acme/instances", {"name": "retail", "tree": "main"}),
            ("POST", "/tenants/acme/instances/retail/environments", {"name": "prod"}),
        ):
            answer = self(method, path, body)
            assert answer.status_code == 201, answer.text
        return "/tenants/acme/instances/retail/environments/prod"

    def set_up_both(self) -> None:
        """Create acme and globex on one tree, each with a stream."""
        self("POST", f"{self.set_up()}/streams", {"name": "orders"})
        self("POST", "/tenants", {"name": "globex"})
        self("POST", "/tenants/globex/instances", {"name": "retail"})
        there = "/tenants/globex/instances/retail/environments"
        self("POST", there, {"name": "prod"})
        assert self("POST", f"{there}/prod/streams", {"name": "items"}).status_code == 201

    def grow(self) -> None:
        """Create three clusters and the tree over them."""
        self.add_clusters("c1", "c2", "c3")
        assert self("PUT", "/trees/main", TREE).status_code == 201


TREE = {
    "level": 2,
    "children": [{"cluster": "c1"}, {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]}],
}


def problem(answer: Response, status: int, slug: str) -> dict[str, Any]:
    """Check that an answer is this refusal, and return its problem document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["status"] == status
    assert document["type"] == f"urn:treeline:{slug}"
    assert document["title"]
    assert all(set(error) >= {"pointer", "detail"} for error in document["errors"])
    return document


def rest_settings(database_url: str, **changes: Any) -> Settings:
    """Return the settings of an application on this database."""
    known = {
        "database_url": database_url,
        "admin_token": SecretStr(TOKEN),
        "secrets_key": SecretStr(SECRETS_KEY),
        "probe_timeout_seconds": 0.5,
        "metrics_keep_seconds": 0.0,
    }
    return Settings(**{**known, **changes})


@contextmanager
def served(database_url: str, **settings: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run the API as `treeline up` starts it; yields its URL and process. `settings`: `session_hours="1"`."""
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "uvicorn", "backend.asgi:app", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"TREELINE_DATABASE_URL": database_url, "TREELINE_ADMIN_TOKEN": TOKEN}
    environment |= {"TREELINE_SECRETS_KEY": SECRETS_KEY}
    environment |= {f"TREELINE_{name.upper()}": value for name, value in settings.items()}
    process = subprocess.Popen([*command, "--log-level", "warning"], cwd=PROJECT_ROOT, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if http.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx2.TransportError:
                time.sleep(0.05)
        assert process.poll() is None, "the API has ended"
        yield url, process
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)


@contextmanager
def rest_on(database_url: str) -> Iterator[Rest]:
    """Run the API on this database; without the lifespan, whose threads take half a second to end."""
    app = create_app(rest_settings(database_url))
    yield Rest(TestClient(app, raise_server_exceptions=False))
    app.state.services.engine.dispose()


def _filled(fill: Callable[[Rest], object]) -> Content:
    def content(database_url: str) -> None:
        with rest_on(database_url) as rest:
            fill(rest)

    return content


CONTENTS: dict[str, Content] = {
    "cluster": _filled(lambda rest: rest.add_clusters("c1")),
    "clusters": _filled(lambda rest: rest.add_clusters("c1", "c2")),
    "grown": _filled(Rest.grow),
    "tenant": _filled(Rest.set_up),
    "both": _filled(Rest.set_up_both),
}
"""Initial contents of the fixtures; made once, as adding a cluster that is down takes a while."""


def content_for(fixtures: Collection[str]) -> Content | None:
    """Return the initial content that one of these fixtures promises."""
    return next((content for name, content in CONTENTS.items() if name in fixtures), None)


@pytest.fixture
def rest(database: Database) -> Iterator[Rest]:
    """Yield the API on a fresh database."""
    with rest_on(database.url) as asked:
        yield asked


@pytest.fixture
def cluster(rest: Rest) -> Rest:
    """Return the API with c1, which is down, and in no tree."""
    return rest


@pytest.fixture
def clusters(rest: Rest) -> Rest:
    """Return the API with c1 and c2, which are down, and in no tree."""
    return rest


@pytest.fixture
def tenant(rest: Rest) -> Rest:
    """Return the API with three clusters in a tree, and acme/retail/prod."""
    return rest


@pytest.fixture
def both(rest: Rest) -> Rest:
    """Return the API with both tenants, acme and globex, on one tree, each with a stream."""
    return rest


@pytest.fixture
def grown(rest: Rest) -> Rest:
    """Return the API with three clusters and the tree over them."""
    return rest


@pytest.fixture
def running_rest(database: Database) -> Iterator[Rest]:
    """Yield the API together with its background threads."""
    with TestClient(create_app(rest_settings(database.url)), raise_server_exceptions=False) as client:
        yield Rest(client)


def new_database(postgres: RunningPostgres) -> str:
    """Return the URL of a migrated database that a module's tests share."""
    name = f"test_{secrets.token_hex(6)}"
    postgres.create(name, TEMPLATE)
    return postgres.server.url(name)


@contextmanager
def shared_rest(postgres: RunningPostgres) -> Iterator[Rest]:
    """Yield the API on a database of its own, for a module's tests that change nothing (which is checked)."""
    with rest_on(new_database(postgres)) as rest:
        yield rest


@pytest.fixture(scope="module")
def empty_rest(postgres: RunningPostgres) -> Iterator[Rest]:
    """Yield the API of an empty control plane."""
    with shared_rest(postgres) as shared:
        yield shared
        assert shared.head() == 0


@pytest.fixture(scope="module")
def settled(postgres: RunningPostgres) -> Iterator[Rest]:
    """Yield the API with three clusters in a tree, and acme/retail/prod; requests must change nothing."""
    with shared_rest(postgres) as shared:
        shared.set_up()
        head = shared.head()
        yield shared
        assert shared.head() == head


@pytest.fixture
def logged_events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the log records about events, as `backend.logs` would have them before it makes them JSON.

    The process's own logger keeps the output it had when it was first used, and so one of an earlier test.
    """
    found: list[dict[str, Any]] = []

    def keep(_: Any, __: str, line: Any) -> Any:
        found.append(dict(line))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(None, processors=[structlog.contextvars.merge_contextvars, keep])
    monkeypatch.setattr(dispatch, "log", logger)
    return found
