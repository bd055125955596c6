"""Three brokers in three zones with a node of the router in each, for the folder."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.eventually import eventually
from tests.placement_live.brokers import NODES, Brokers
from tests.zone_router_live.nodes import Router


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    folder = tmp_path_factory.mktemp("zones")
    brokers = Brokers(folder)
    router = Router(folder, brokers)
    try:
        brokers.start(*NODES)
        router.start()
        yield router
    finally:
        router.end()
        brokers.end()


@pytest.fixture
def router(running: Router) -> Iterator[Router]:
    """All brokers and nodes running; also for the next test, whatever the test does."""
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
