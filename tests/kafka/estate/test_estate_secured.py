"""Three brokers in three zones with SCRAM and ACLs behind the proxy: all options of an estate at once."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate, boot, treeline
from tests.support.kafka.topics import DEADLINE_SECONDS, produce

# Log-in and refusal: test_access_admin; three brokers in zones: test_estate_brokers; adoption: test_rest_adoption.
pytestmark = pytest.mark.nightly

ESTATE = """\
name: secured-replicated
primary: cluster-1
clusters:
  cluster-1:
    brokers: 3
    zones: [az1, az2, az3]
    listeners_via_proxy: true
    security: {sasl: SCRAM-SHA-512, acls: true}
  cluster-2: {brokers: 1, zone: az1}
tree: {level: 1, children: [{cluster: cluster-1}, {cluster: cluster-2}]}
tenants:
  acme:
    instances:
      retail:
        environments:
          prod:
            streams:
              orders: {partitions: 3, replication_factor: 3, min_insync_replicas: 2}
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    folder = tmp_path_factory.mktemp("secured")
    file = folder / "estate.yaml"
    file.write_text(ESTATE)
    running = boot(folder / "home", file)
    assert running.booted.returncode == 0, running.booted.stderr
    yield running
    treeline(folder / "home", "down", "--wipe")


def login(password: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "treeline",
        "sasl.password": password,
        "log_level": 0,
    }


def client(secured: RunningEstate, password: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": secured.bootstrap_servers("cluster-1"), **login(password)})


def password(secured: RunningEstate) -> str:
    return Path(secured.home, "secrets", "kafka-password").read_text()


def test_the_control_plane_logs_in_and_finds_every_broker_with_its_zone(secured: RunningEstate) -> None:
    assert secured.status()["clusters"]["cluster-1"]["state"] == "online"
    admin = client(secured, password(secured))
    nodes = admin.describe_cluster().result(DEADLINE_SECONDS).nodes
    assert {node.id: node.rack for node in nodes} == {1: "az1", 2: "az2", 3: "az3"}


def test_nobody_gets_in_without_the_password(secured: RunningEstate) -> None:
    with pytest.raises(KafkaException):
        client(secured, "guessed").list_topics(timeout=3)
    anonymous = AdminClient({"bootstrap.servers": secured.bootstrap_servers("cluster-1"), "log_level": 0})
    with pytest.raises(KafkaException):
        anonymous.list_topics(timeout=3)


def test_streams_get_as_many_replicas_as_there_are_brokers(secured: RunningEstate) -> None:
    admin = client(secured, password(secured))
    topic = "acme-retail-prod-orders"
    eventually(
        lambda: topic in admin.list_topics(timeout=DEADLINE_SECONDS).topics, "the stream's topic is there", 0.3
    )
    partitions = admin.list_topics(topic, timeout=DEADLINE_SECONDS).topics[topic].partitions
    assert [len(partition.replicas) for partition in partitions.values()] == [3, 3, 3]


def test_topics_on_a_secured_cluster_are_adopted(secured: RunningEstate) -> None:
    admin, topic = client(secured, password(secured)), "globex-eu-dev-parcels"
    admin.create_topics([NewTopic(topic, 2, 3, config={"min.insync.replicas": "2"})])[topic].result(
        DEADLINE_SECONDS
    )
    adopted = secured.treeline("adopt", "cluster-1", "--topic", topic, "--json")
    assert adopted.returncode == 0, adopted.stderr
    assert json.loads(adopted.stdout) == {"cluster": "cluster-1", "adopted": 1, "refused": {}}
    stream = RestClient(secured.url, secured.token).ok(
        "GET", "/tenants/globex/instances/eu/environments/dev/streams/parcels"
    )
    assert (stream["applied"]["cluster-1"], stream["min_insync_replicas"]) == ("applied", 2)


@pytest.mark.nightly
def test_two_brokers_serve_while_the_third_is_killed_and_it_comes_back(secured: RunningEstate) -> None:
    admin = client(secured, password(secured))
    before = secured.process("kafka:cluster-1:2")
    os.kill(before["pid"], signal.SIGKILL)
    assert admin.list_topics(timeout=60).brokers
    eventually(lambda: secured.process("kafka:cluster-1:2")["restarts"] == 1, "the death was seen")
    eventually(lambda: secured.status()["ready"], "ready again", 0.3)
    eventually(lambda: set(admin.list_topics(timeout=60).brokers) == {1, 2, 3}, "all three are back", 0.3)


@pytest.fixture(scope="module")
def fourth(secured: RunningEstate) -> Iterator[int]:
    """Add one broker for the tests that come last; yields its port."""
    added = secured.treeline("estate", "add-broker", "cluster-1", "--zone", "az2")
    assert added.returncode == 0, added.stderr
    port = int(json.loads(added.stdout)["bootstrap_servers"].partition(":")[2])
    yield port
    secured.treeline("estate", "heal", "cluster-1")
    removed = secured.treeline("estate", "remove-broker", "cluster-1", "4", "--force")
    assert removed.returncode == 0, removed.stderr
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    admin = client(secured, password(secured))
    eventually(lambda: set(admin.list_topics(timeout=60).brokers) == {1, 2, 3}, "it is gone", 0.3)


@pytest.mark.nightly
def test_an_added_broker_lets_in_whom_the_others_let_in(secured: RunningEstate, fourth: int) -> None:
    admin = client(secured, password(secured))

    def found() -> list[tuple[str, int]]:
        nodes = admin.describe_cluster().result(DEADLINE_SECONDS).nodes
        return [(node.rack, node.port) for node in nodes if node.id == 4]

    assert eventually(found, "whoever is asked knows of it") == [("az2", fourth)]
    admin.create_topics([NewTopic("on-four", 1, replica_assignment=[[4]])])["on-four"].result(DEADLINE_SECONDS)
    produce(secured.bootstrap_servers("cluster-1"), "on-four", [{"value": b"kept"}], **login(password(secured)))
    refused = secured.treeline("estate", "remove-broker", "cluster-1", "4")
    assert refused.returncode == 3
    assert "holds 1 replica (on-four)" in refused.stderr
    admin.delete_topics(["on-four"])["on-four"].result(DEADLINE_SECONDS)
    there = {"bootstrap.servers": f"127.0.0.1:{fourth}"}
    for wrong in (login("guessed"), {"log_level": 0}):
        with pytest.raises(KafkaException):
            AdminClient(there | wrong).list_topics(timeout=3)


def test_an_added_broker_is_behind_the_proxy_like_the_others(secured: RunningEstate, fourth: int) -> None:
    there = {"bootstrap.servers": f"127.0.0.1:{fourth}"} | login(password(secured))
    assert AdminClient(there).list_topics(timeout=DEADLINE_SECONDS).brokers
    assert secured.treeline("estate", "cut", "cluster-1").returncode == 0
    with pytest.raises(KafkaException):
        AdminClient(there).list_topics(timeout=3)
    os.kill(secured.process("proxy")["pid"], signal.SIGKILL)

    def answers() -> bool:
        try:
            return bool(AdminClient(there).list_topics(timeout=3).brokers)
        except KafkaException:
            return False

    eventually(answers, "a restarted proxy has its way too, and is healed")
