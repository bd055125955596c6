"""Nodes with a real control plane, whose worker begins epochs while clients produce.

Epochs are fenced and committed, unreachable nodes are left out, and a main that does not know the fence accepts
nothing.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.eventually import eventually
from tests.kafka.zones.control import Control
from tests.kafka.zones.test_faults import Producing, each_once
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import client
from tests.support.zones.zone_reports import pass_time

pytestmark = pytest.mark.parametrize("router", ["passed"], indirect=True)


@pytest.mark.usefixtures("ticking")
@pytest.mark.nightly
def test_epochs_are_fenced_and_committed_while_clients_produce(control: Control, topic: str) -> None:
    with Producing(control.router, topic, "az1") as producing:
        before = control.get("/route-epochs")
        eventually(
            lambda: control.get("/route-epochs")["committed"] > before["current"] + 3,
            "what came in epochs that are over is committed",
        )
        producing.resumed()
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
    assert ("az1", "az1") in sent and all(start == end for start, end in sent)
    assert found["cross_zone_payload_bytes"] == 0


def told(control: Control, at: str, zone: str) -> set[int]:
    """Return the brokers' ports that a client of a zone gets from another zone's node."""
    admin = AdminClient({**client(control.router.nodes[at]), "client.id": f"zone={zone}"})
    return {broker.port for broker in admin.list_topics(timeout=DEADLINE_SECONDS).brokers.values()}


@pytest.mark.nightly  # test_directory, with a mutant
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
@pytest.mark.nightly  # fences: test_routes and test_confirmer; a main that dies: test_mains
def test_a_main_takes_nothing_until_it_knows_the_fence(control: Control, topic: str) -> None:
    eventually(lambda: control.get("/route-epochs")["fenced"] > 0, "there is a fence")
    control.end()
    with Producing(control.router, topic, "az1") as producing:
        producing.resumed()  # without the control plane, too
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
        producing.resumed()
