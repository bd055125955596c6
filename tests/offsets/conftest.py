"""Streams of a test's own on the shared estate, whose workers translate and apply what groups commit."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.estate_fixture import RunningEstate
from tests.eventually import eventually
from tests.offsets.groups import Groups
from tests.rest_client import RestClient

RETAIL = "/tenants/acme/instances/retail/environments"


@pytest.fixture(scope="package")
def rest(estate: RunningEstate) -> RestClient:
    return RestClient(estate.url, estate.token)


@pytest.fixture(scope="package")
def servers(estate: RunningEstate) -> dict[str, str]:
    return {name: row["bootstrap_servers"] for name, row in estate.status()["clusters"].items()}


@pytest.fixture
def make_groups(servers: dict[str, str], rest: RestClient) -> Iterator[Callable[..., Groups]]:
    """Makes a stream in a margin or an exact environment; gives what tests ask of groups that read it."""
    made: list[tuple[str, str, str]] = []

    def make(mode: str, partitions: int = 1, margin_seconds: int = 60, **settings: object) -> Groups:
        environment, name = f"{mode}-{margin_seconds}", f"o{secrets.token_hex(4)}"
        rest("POST", RETAIL, {"name": environment, "offset_mode": mode, "margin_seconds": margin_seconds})
        path = f"{RETAIL}/{environment}/streams"
        rest.ok("POST", path, {"name": name, "partitions": partitions, **settings})
        made.append((path, name, f"acme/retail/{environment}/{name}"))
        eventually(lambda: set(rest.ok("GET", f"{path}/{name}")["applied"].values()) == {"applied"}, "applied")
        topics = rest.ok("GET", f"{path}/{name}")["technical_names"]
        return Groups(rest, servers, topics, ("acme", "retail", environment, name))

    yield make
    for path, name, stream in made:
        rest("DELETE", f"{path}/{name}?confirm={stream}")
