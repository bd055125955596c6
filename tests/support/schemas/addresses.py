"""Registries of a running estate, as stock clients speak to them, and API processes beside the estate's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from backend.estate.home import Home
from backend.estate.ports import free_ports
from backend.estate.processes import load_plan
from tests.eventually import eventually
from tests.support.api import http
from tests.support.estate.running import RunningEstate

TOPIC = "_schemas"


@dataclass(frozen=True)
class Address:
    """Address of one cluster's registry."""

    url: str

    def client(self) -> SchemaRegistryClient:
        """A stock client; it asks once, so that what is refused for the moment is seen."""
        return SchemaRegistryClient({"url": self.url, "max.retries": 0})

    def __call__(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        return http.request(method, f"{self.url}{path}", json=body)

    def get(self, path: str) -> Any:
        """A read that must be answered."""
        answer = self("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="session")
def primary(estate: RunningEstate) -> Address:
    """Return the registry of the estate's primary cluster."""
    return Address(estate.status()["clusters"]["cluster-1"]["registry"])


@pytest.fixture(scope="session")
def other(estate: RunningEstate) -> Address:
    """Return the registry of a cluster that is not the primary."""
    return Address(estate.status()["clusters"]["cluster-3"]["registry"])


class ApiProcess:
    """An API process like the estate's, on a port of its own."""

    def __init__(self, home: Home) -> None:
        spec = next(each for each in load_plan(home.plan).processes if each.name == "api")
        port = str(free_ports(1)[0])
        argv = list(spec.argv)
        argv[argv.index("--port") + 1] = port
        self._argv, self._spec = argv, spec
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def registry(self, cluster: str) -> Address:
        return Address(f"{self.url}/registries/{cluster}")

    def start(self) -> None:
        """Returns once it answers."""
        environment = {**os.environ, **self._spec.environment}
        process = subprocess.Popen(self._argv, cwd=self._spec.directory, env=environment)
        self._process = process

        def answers() -> bool:
            assert process.poll() is None, "the API has ended"
            try:
                return http.get(f"{self.url}/readyz").status_code == 200
            except httpx2.TransportError:
                return False

        eventually(answers, f"{self.url} answers")

    def kill(self) -> None:
        """SIGKILL: nothing is said goodbye to."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def another_api(estate: RunningEstate) -> Iterator[ApiProcess]:
    """Beside the estate's own, on the same database."""
    api = ApiProcess(Home(estate.home))
    api.start()
    try:
        yield api
    finally:
        api.kill()


def settled(look: Callable[[], httpx2.Response], what: str) -> Any:
    """The JSON of the first answer that is no refusal."""
    return eventually(lambda: answer if (answer := look()).is_success else None, what).json()
