"""`secured`: the shipped estate of two clusters with SCRAM and ACLs beside an open one, running."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from backend.estate.home import Home
from backend.settings import PROJECT_ROOT
from tests.support.api.rest_client import RestClient
from tests.support.estate.cluster_secrets import cluster_secrets
from tests.support.estate.running import RunningEstate, boot, treeline

SCRAM = "SCRAM-SHA-512"
SECURED = ("cluster-1", "cluster-2")
OPEN = "cluster-3"


@dataclass(frozen=True)
class Login:
    """A user of the secured clusters."""

    estate: RunningEstate
    username: str
    password: str

    def config(self, cluster: str, **more: Any) -> dict[str, Any]:
        """Return librdkafka's configuration of a client of this user; _ stands for the dots of `more`."""
        return {
            "bootstrap.servers": self.estate.bootstrap_servers(cluster),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": SCRAM,
            "sasl.username": self.username,
            "sasl.password": self.password,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in more.items()},
        }


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    home = tmp_path_factory.mktemp("access") / "home"
    running = boot(home, PROJECT_ROOT / "estates" / "secured.yaml")
    assert running.booted.returncode == 0, running.booted.stderr
    with cluster_secrets(home=home):
        yield running
    treeline(home, "down", "--wipe")


@pytest.fixture(scope="package")
def control_plane(secured: RunningEstate) -> Login:
    """The user that may do everything."""
    return Login(secured, "treeline", Home(secured.home).secret("kafka-password"))


@pytest.fixture(scope="package")
def rest(secured: RunningEstate) -> RestClient:
    """Return the REST API as the admin, who decides for every tenant."""
    return RestClient(secured.url, secured.token)
