"""Three brokers in three zones with a node of the router in each, for the folder."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.eventually import eventually
from tests.placement_live.brokers import NODES, Brokers
from tests.zone_router_live.nodes import Router

WAYS = ("passed", "by mains")
"""What is produced goes to the leader as it is, or by the router channel and the leader's main."""


@pytest.fixture(scope="package")
def all_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Router]]:
    folder = tmp_path_factory.mktemp("zones")
    brokers = Brokers(folder)
    routers = {way: Router(folder / way.replace(" ", "-"), brokers, channel=way == "by mains") for way in WAYS}
    try:
        brokers.start(*NODES)
        for router in routers.values():
            router.start()
        yield routers
    finally:
        for router in routers.values():
            router.end()
        brokers.end()


@pytest.fixture(params=WAYS)
def router(all_running: dict[str, Router], request: pytest.FixtureRequest) -> Iterator[Router]:
    """All brokers and nodes running; also for the next test, whatever the test does."""
    running = all_running[request.param]
    running.brokers.start(*NODES)
    running.start()
    admin = running.brokers.admin
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == len(NODES), "all brokers are there")
    yield running


@pytest.fixture
def topic(router: Router) -> str:
    """Six partitions, two led by each broker, each replica in sync."""
    name = f"zones-{secrets.token_hex(4)}"
    router.brokers.create(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    return name
