"""Nodes beside a real control plane, whose worker begins epochs: they are fenced and committed while clients
produce, who is dead is told of no more, and a main that does not know the fence takes nothing.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from backend.dispatch import Dispatcher
from backend.estate.ports import free_ports
from backend.eventlog.engine import create_engine
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from tests.database_fixture import Database, RunningPostgres
from tests.eventually import eventually
from tests.integration.conftest import new_database, rest_settings
from tests.kafka import DEADLINE_SECONDS
from tests.pages.consoles import TOKEN, Console, serve
from tests.zone_reports import pass_time
from tests.zone_router_live.nodes import Router, client
from tests.zone_router_live.test_faults import Producing, each_once
from workers import context
from workers.route_epochs import RouteEpochTicker

EPOCH_SECONDS = 1.0


@dataclass
class Control:
    """A control plane, which may be away, and a router whose nodes report to it."""

    database: Database
    router: Router
    port: int
    folder: Path
    served: ExitStack = field(default_factory=ExitStack)
    lives: bool = False

    def start(self) -> None:
        if not self.lives:
            self.served.enter_context(serve(self.database.url, self.folder / "api.log", self.port))
            self.lives = True

    def end(self) -> None:
        self.served.close()
        self.lives = False

    def get(self, path: str) -> Any:
        return Console(f"http://127.0.0.1:{self.port}", TOKEN).rest.ok("GET", path)


@pytest.fixture(scope="module")
def made(
    postgres: RunningPostgres, all_running: dict[str, Router], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Control]:
    folder, (port,) = tmp_path_factory.mktemp("control"), free_ports(1)
    url = new_database(postgres)
    engine = create_engine(url)
    (folder / "token").write_text(TOKEN)
    section = {"url": f"http://127.0.0.1:{port}", "token": f"${{file:{folder}/token}}"}
    brokers = all_running["passed"].brokers
    router = Router(folder, brokers, channel=True, reads={"commit_ms": 200}, control=section)
    found = Control(Database(url, engine, engine), router, port, folder)
    try:
        yield found
    finally:
        router.end()
        found.end()
        engine.dispose()


@pytest.fixture
def control(made: Control, all_running: dict[str, Router], router: Router) -> Control:
    """All of it running, also for the next test, whatever the test does."""
    made.start()
    made.router.start()
    eventually(lambda: len(_living(made)) == 3, "all nodes have reported")
    return made


@pytest.fixture
def ticking(made: Control, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker begins an epoch each second."""
    dispatcher = Dispatcher(made.database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    settings = rest_settings(made.database.url, route_epoch_seconds=EPOCH_SECONDS)
    ticker, ended = RouteEpochTicker(made.database.engine, settings), threading.Event()

    def tick() -> None:
        while not ended.wait(0.1):
            ticker.tick()

    thread = threading.Thread(target=tick)
    thread.start()
    yield
    ended.set()
    thread.join()


def _living(control: Control) -> list[dict[str, Any]]:
    return [each for each in control.get("/zones")["nodes"] if not each["fenced"] and each["age_seconds"] < 5]


pytestmark = pytest.mark.parametrize("router", ["passed"], indirect=True)


@pytest.fixture
def topic(made: Control) -> str:
    name = f"epochs-{secrets.token_hex(4)}"
    made.router.brokers.create(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    return name


@pytest.mark.usefixtures("ticking")
def test_epochs_are_fenced_and_committed_while_clients_produce(control: Control, topic: str) -> None:
    with Producing(control.router, topic, "az1") as producing:
        before = control.get("/route-epochs")
        eventually(
            lambda: control.get("/route-epochs")["committed"] > before["current"] + 3,
            "what came in epochs that are over is committed",
        )
        producing.goes_on()
    each_once(control.router, topic, producing)
    found = control.get("/zones")
    epochs = found["epochs"]
    assert epochs["committed"] <= epochs["fenced"] == epochs["current"] - 2
    nodes = {each["node"]: each for each in found["nodes"]}
    assert {name: (each["zone"], each["broker"], each["serves"]) for name, each in nodes.items()} == {
        f"zr-az{number}": (f"az{number}", number, ["proxy", "main"]) for number in (1, 2, 3)
    }
    assert all(each["reported_epoch"] >= epochs["committed"] for each in nodes.values())
    assert all(each["stands_for"] == {"east": [1, 2, 3]} for each in nodes.values())
    sent = {(each["from_zone"], each["to_zone"]) for each in found["traffic"] if each["plane"] == "produce"}
    assert sent == {("az1", "az1")} and found["cross_zone_payload_bytes"] == 0


def told(control: Control, at: str, zone: str) -> set[int]:
    """Ports of brokers that a client of a zone is told by the node of another one."""
    admin = AdminClient({**client(control.router.nodes[at]), "client.id": f"zone={zone}"})
    return {broker.port for broker in admin.list_topics(timeout=DEADLINE_SECONDS).brokers.values()}


def test_who_is_dead_is_told_of_no_more_until_it_is_back(control: Control, topic: str) -> None:
    node = control.router.nodes["az2"]
    at_node, own = set(node.brokers.values()), control.router.ports_of_brokers
    eventually(lambda: told(control, "az1", "az2") == at_node, "it is told of while it lives")
    node.end(kill=True)
    pass_time(control.database, 0, since=600)
    pass_time(control.database, 31, node.name)
    eventually(lambda: told(control, "az1", "az2") == own, "clients get on without it")
    assert told(control, "az1", "az1") == set(control.router.nodes["az1"].brokers.values())
    node.start()
    eventually(lambda: told(control, "az1", "az2") == at_node, "it is told of again")


@pytest.mark.usefixtures("ticking")
def test_a_main_takes_nothing_until_it_knows_the_fence(control: Control, topic: str) -> None:
    eventually(lambda: control.get("/route-epochs")["fenced"] > 0, "there is a fence")
    control.end()
    with Producing(control.router, topic, "az1") as producing:
        producing.goes_on()  # without the control plane, too
        control.router.nodes["az3"].end(kill=True)
        control.router.nodes["az3"].start()
        producer = Producer(client(control.router.nodes["az1"], linger_ms=0, reconnect_backoff_max_ms=500))
        delivered: list[int] = []
        producer.produce(topic, "-1", partition=0, on_delivery=lambda error, _: delivered.append(0))
        producer.produce(topic, "-2", partition=2, on_delivery=lambda error, _: delivered.append(2))
        eventually(lambda: producer.poll(0.1) >= 0 and delivered == [0], "the other mains take what comes")
        refusing = producer.flush(2)
        assert refusing == 1 and delivered == [0], "the main of broker 3 does not know the fence"
        control.start()
        assert producer.flush(DEADLINE_SECONDS) == 0 and delivered == [0, 2]
        producing.goes_on()
