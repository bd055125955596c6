"""Three brokers in three zones with a node of the router in each, for the folder."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator

import pytest

from backend.dispatch import Dispatcher
from backend.estate.ports import free_ports
from backend.eventlog.engine import create_engine
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from tests.eventually import eventually
from tests.kafka.zones import control as planes
from tests.support.api.rest import new_database, rest_settings
from tests.support.console.consoles import TOKEN
from tests.support.database.postgres import Database, RunningPostgres
from tests.support.kafka.three_brokers import NODES, Brokers
from tests.support.zones.nodes import BY_MAINS, PASSED, WAYS, Router
from workers import context
from workers.route_epochs import RouteEpochTicker

READING = "reading"
"""Configuration with the router channel and zone-local reads."""
READS = {"commit_ms": 1_000, "cache_bytes": 24 << 20, "block_cache_bytes": 16 << 20, "block_bytes": 4 << 20}


@pytest.fixture(scope="package")
def all_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Router]]:
    folder = tmp_path_factory.mktemp("zones")
    brokers = Brokers(folder)
    routers: dict[str, Router] = {}
    try:
        brokers.start(*NODES)
        for way in (*WAYS, READING):
            # One after the other, as free ports are only reserved by listening, and two could draw the same.
            reads = READS if way == READING else None
            routers[way] = Router(folder / way.replace(" ", "-"), brokers, channel=way != PASSED, reads=reads)
            routers[way].start()
        yield routers
    finally:
        for router in routers.values():
            router.end()
        brokers.end()


@pytest.fixture
def router(all_running: dict[str, Router], request: pytest.FixtureRequest) -> Router:
    """Provide running brokers and nodes, restored after each test.

    Produced data goes through mains, unless the test asks for another way or for both (`BOTH_WAYS`).
    """
    return _running(all_running[getattr(request, "param", BY_MAINS)])


@pytest.fixture
def reading(all_running: dict[str, Router]) -> Router:
    """Provide the same with zone-local reads."""
    return _running(all_running[READING])


def _running(router: Router) -> Router:
    router.brokers.start(*NODES)
    router.start()
    admin = router.brokers.admin
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == len(NODES), "all brokers are there")
    return router


@pytest.fixture
def topic(router: Router) -> str:
    """Create a topic of six partitions, two led by each broker, with all replicas in sync."""
    name = f"zones-{secrets.token_hex(4)}"
    router.brokers.create(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    return name


@pytest.fixture(scope="package")
def made(
    postgres: RunningPostgres, all_running: dict[str, Router], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[planes.Control]:
    folder, (port,) = tmp_path_factory.mktemp("control"), free_ports(1)
    url = new_database(postgres)
    engine = create_engine(url)
    (folder / "token").write_text(TOKEN)
    section = {"url": f"http://127.0.0.1:{port}", "token": f"${{file:{folder}/token}}"}
    brokers = all_running["passed"].brokers
    router = Router(folder, brokers, channel=True, reads=planes.READS, control=section)
    found = planes.Control(Database(url, engine, engine), router, port, folder)
    try:
        yield found
    finally:
        router.end()
        found.end()
        engine.dispose()


@pytest.fixture
def control(made: planes.Control, all_running: dict[str, Router], router: Router) -> planes.Control:
    """Provide the running setup, restored after each test."""
    made.start()
    made.router.start()
    eventually(lambda: len(made.living()) == 3, "all nodes have reported")
    return made


@pytest.fixture
def ticking(made: planes.Control, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a worker begin an epoch each second."""
    dispatcher = Dispatcher(made.database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    settings = rest_settings(made.database.url, route_epoch_seconds=planes.EPOCH_SECONDS)
    ticker, ended = RouteEpochTicker(made.database.engine, settings), threading.Event()

    def tick() -> None:
        while not ended.wait(0.1):
            ticker.tick()

    thread = threading.Thread(target=tick)
    thread.start()
    yield
    ended.set()
    thread.join()
