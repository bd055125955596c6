"""The HTTP of one cluster's registry whose catalog is given; no cluster and no database is asked."""

from __future__ import annotations

import json
from typing import Any

from httpx2 import Response
from pydantic import SecretStr
from sqlalchemy import Engine
from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.api.frame.services import Services
from backend.domain.distribution.edges import Endpoint
from backend.eventlog.engine import create_engine
from backend.eventlog.listen import EventListener
from backend.registry.access import Access
from backend.registry.app import Registries
from backend.registry.directory import Directory, Registry
from backend.settings import Settings
from tests.support.schemas.written_log import WrittenLog

TOKEN = "a token of the tests, as long as real ones are"
NOWHERE = "postgresql+psycopg://127.0.0.1:9/nowhere"


class OneCluster(Directory):
    """Knows a cluster whose topic is read already."""

    def __init__(self, engine: Engine, registry: Registry) -> None:
        super().__init__(engine, EventListener(engine), "_schemas")
        self._registries = {registry.mirror.endpoint.name: registry}

    def refresh(self) -> None:
        """There is nothing new."""


class Client:
    """HTTP client of one cluster's registry."""

    def __init__(
        self,
        log: WrittenLog,
        access: type[Access] = Access,
        server: str = "127.0.0.1",
        client: str = "127.0.0.1",
        **settings: Any,
    ) -> None:
        # Nobody listens there: whatever needs the database would fail.
        engine = create_engine(NOWHERE)
        endpoint = Endpoint(name="c1", number=1, bootstrap_servers="127.0.0.1:9", properties={})
        registry = Registry(engine, endpoint, "_schemas")
        self.mirror = registry.mirror
        self.mirror.catalog, self.mirror.parser, self.mirror.ready = log.catalog, log.parser, True
        config = Settings(**{"admin_token": SecretStr(TOKEN), "registry_open": True, **settings})
        if access is not Access:
            registry.writer.write = log.decide  # type: ignore[method-assign]
        database = Services(Settings(database_url=NOWHERE))
        served = Registries(Starlette(), OneCluster(engine, registry), config, access(database, config))
        self._client = TestClient(served, base_url=f"http://{server}", client=(client, 50000))

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content = json.dumps(body).encode() if isinstance(body, dict | list) else body
        return self._client.request(method, f"/registries/c1{path}", content=content, headers=sent)

    def get(self, path: str) -> Any:
        answer = self("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def refused(answer: Response, status: int, code: int) -> str:
    """The message of an answer that must be this refusal, in Confluent's form."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["error_code"] == code
    message: str = body["message"]
    return message
