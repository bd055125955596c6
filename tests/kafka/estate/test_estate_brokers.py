"""A fourth broker in a running cluster of three: it joins, holds replicas, outlives `down`, and is removed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Node, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.admin import DescribeClusterRequest

from backend.estate.added_brokers import BrokerHoldsReplicas, read_added, save_added
from backend.estate.home import Home
from backend.estate.membership import remove_broker
from backend.estate.ports import free_ports
from backend.estate.programs.broker import AddedBroker, BrokerPorts
from backend.estate.saved_layout import restore_layout, save_layout
from backend.kafka.admin.broker_removal import replicas_on
from backend.kafka.base.protocol_client import ProtocolClient
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.estate.running import RunningEstate, boot, treeline
from tests.support.kafka.topics import DEADLINE_SECONDS, produce, read_all, topics

# A broker is added to a local estate to try placements; tests/kafka/placement does so with brokers of its own.
pytestmark = pytest.mark.nightly

ESTATE = """\
name: three-zones
primary: cluster-1
clusters:
  cluster-1: {brokers: 3, zones: [az1, az2, az3]}
tree: {cluster: cluster-1}
"""
FILES_OWN = {1: "az1", 2: "az2", 3: "az3"}


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    folder = tmp_path_factory.mktemp("brokers")
    (folder / "estate.yaml").write_text(ESTATE)
    running = boot(folder / "home", folder / "estate.yaml")
    assert running.booted.returncode == 0, running.booted.stderr
    yield running
    treeline(folder / "home", "down", "--wipe")


@pytest.fixture
def three(booted: RunningEstate) -> Iterator[RunningEstate]:
    """Yield the estate with the three brokers of its file, whatever the test before left."""
    remove_all(booted)
    yield booted
    remove_all(booted)


def remove_all(three: RunningEstate) -> None:
    for name in processes(three):
        node = name.rpartition(":")[2]
        if name.startswith("kafka:") and int(node) not in FILES_OWN:
            removed = three.treeline("estate", "remove-broker", "cluster-1", node, "--force")
            assert removed.returncode == 0, removed.stderr


def processes(three: RunningEstate) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in three.status()["processes"]}


def add(three: RunningEstate, *words: str) -> dict[str, Any]:
    done = three.treeline("estate", "add-broker", "cluster-1", *words)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def admin(three: RunningEstate) -> AdminClient:
    return AdminClient({"bootstrap.servers": three.bootstrap_servers("cluster-1")})


def racks(three: RunningEstate) -> dict[int, str]:
    """Return the racks of the running brokers."""
    return {node.id: node.rack for node in nodes(three)}


def nodes(three: RunningEstate) -> list[Node]:
    client = admin(three)  # named, as it has to live until it has answered
    found: list[Node] = client.describe_cluster().result(DEADLINE_SECONDS).nodes
    return found


def registered(three: RunningEstate) -> set[int]:
    """Return the brokers in the metadata, including those that do not run."""
    client = ProtocolClient(three.bootstrap_servers("cluster-1"), {}, DEADLINE_SECONDS)
    try:
        answer = client.send(DescribeClusterRequest(include_fenced_brokers=True, min_version=2))
    finally:
        client.close()
    return {broker.broker_id for broker in answer.brokers}


def create_topic(three: RunningEstate, name: str, *assignment: list[int]) -> None:
    topic = NewTopic(name, len(assignment), replica_assignment=[list(replicas) for replicas in assignment])
    client = admin(three)
    client.create_topics([topic])[name].result(DEADLINE_SECONDS)


def delete_topic(three: RunningEstate, name: str) -> None:
    client = admin(three)
    client.delete_topics([name])[name].result(DEADLINE_SECONDS)
    servers = [f"127.0.0.1:{node.port}" for node in nodes(three)]
    # Any broker may answer the request, and each gets the metadata in its own time.
    eventually(lambda: not any(name in topics(one) for one in servers), f"{name} is gone")


@contextmanager
def records_flowing(three: RunningEstate, topic: str) -> Iterator[list[int]]:
    """Produce numbers until the end of the block; yields those that were acknowledged, in order."""
    acknowledged: list[int] = []
    failed: list[str] = []
    ended = threading.Event()

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.append(int(message.value()))
        else:
            failed.append(str(error))

    def flow() -> None:
        producer = Producer(
            {"bootstrap.servers": three.bootstrap_servers("cluster-1"), "enable.idempotence": True}
        )
        number = 0
        while not ended.wait(0.005):
            producer.produce(topic, str(number).encode(), on_delivery=delivered)
            producer.poll(0)
            number += 1
        failed.extend(["not delivered"] * producer.flush(DEADLINE_SECONDS))

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        eventually(lambda: len(acknowledged) > 0, "records flow")
        yield acknowledged
        so_far = len(acknowledged)
        eventually(lambda: len(acknowledged) > so_far, "records still flow")
    finally:
        ended.set()
        thread.join()
    assert not failed, failed[0]


@pytest.mark.nightly  # a broker comes, holds replicas and goes in test_a_broker_with_a_replica_stays
def test_a_broker_comes_and_goes_while_records_flow(three: RunningEstate) -> None:
    assert racks(three) == FILES_OWN
    create_topic(three, "flowing", [1, 2, 3])
    with records_flowing(three, "flowing") as acknowledged:
        added = add(three, "--zone", "az2")
        assert (added["cluster"], added["node"], added["zone"]) == ("cluster-1", 4, "az2")
        eventually(lambda: racks(three) == {**FILES_OWN, 4: "az2"}, "every broker knows of it")
        assert processes(three)["kafka:cluster-1:4"]["state"] == "running"
        assert three.status()["ready"] is True

        removed = three.treeline("estate", "remove-broker", "cluster-1", "4")
        assert removed.returncode == 0, removed.stderr
        assert json.loads(removed.stdout) == {"cluster": "cluster-1", "node": 4, "replicas_lost": 0}
    servers = three.bootstrap_servers("cluster-1")
    assert [int(message.value()) for message in read_all(servers, "flowing")] == acknowledged
    eventually(lambda: registered(three) == set(FILES_OWN), "the metadata has forgotten it")
    assert "kafka:cluster-1:4" not in processes(three)
    assert not (three.home / "data" / "three-zones" / "cluster-1" / "broker-4").exists()
    delete_topic(three, "flowing")


def test_a_broker_with_a_replica_stays_until_that_is_moved_away(three: RunningEstate) -> None:
    add(three)
    create_topic(three, "on-four", [4, 1], [2, 4], [1, 2])
    servers = three.bootstrap_servers("cluster-1")
    eventually(lambda: replicas_on(servers, {}, 4, DEADLINE_SECONDS) == {"on-four": 2}, "the replicas are known")
    produce(servers, "on-four", [{"value": b"kept", "partition": 0}], acks="all")

    refused = three.treeline("estate", "remove-broker", "cluster-1", "4")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "broker 4 of cluster-1 holds 2 replicas (on-four)" in refused.stderr
    assert "treeline placement plan" in refused.stderr
    assert 4 in racks(three)
    assert [message.value() for message in read_all(servers, "on-four")] == [b"kept"]

    delete_topic(three, "on-four")
    removed = three.treeline("estate", "remove-broker", "cluster-1", "4")
    assert removed.returncode == 0, removed.stderr
    eventually(lambda: registered(three) == set(FILES_OWN), "the metadata has forgotten it")


@pytest.mark.nightly
def test_a_topic_that_comes_while_it_is_being_removed_keeps_its_replica(three: RunningEstate) -> None:
    add(three)

    def told(text: str) -> None:
        if text.startswith("stopping"):  # it had no replicas when it was checked
            create_topic(three, "late", [4])

    with pytest.raises(BrokerHoldsReplicas, match=r"holds 1 replica \(late\)"):
        remove_broker(Home(three.home), "cluster-1", 4, told)
    assert three.process("kafka:cluster-1:4")["state"] == "running"
    produce(three.bootstrap_servers("cluster-1"), "late", [{"value": b"kept"}], acks="all")
    delete_topic(three, "late")


@pytest.mark.nightly
def test_by_force_it_goes_with_what_it_holds_and_its_number_is_given_again(three: RunningEstate) -> None:
    add(three)
    create_topic(three, "forced", [1, 4])
    servers = three.bootstrap_servers("cluster-1")
    produce(servers, "forced", [{"value": b"kept"}], acks="all")
    eventually(lambda: replicas_on(servers, {}, 4, DEADLINE_SECONDS) == {"forced": 1}, "the replica is known")
    removed = three.treeline("estate", "remove-broker", "cluster-1", "4", "--force")
    assert json.loads(removed.stdout)["replicas_lost"] == 1
    assert [message.value() for message in read_all(servers, "forced")] == [b"kept"]

    assert add(three)["node"] == 4

    def in_sync() -> bool:
        partition = admin(three).list_topics("forced", DEADLINE_SECONDS).topics["forced"].partitions[0]
        return sorted(partition.isrs) == [1, 4]

    eventually(in_sync, "the new broker 4 has fetched the replica again")
    delete_topic(three, "forced")


@pytest.mark.nightly  # the broker that does not start shows that it is restarted, too
def test_it_is_supervised_like_the_others(three: RunningEstate) -> None:
    add(three)
    before = three.process("kafka:cluster-1:4")
    os.kill(before["pid"], signal.SIGKILL)
    eventually(lambda: three.process("kafka:cluster-1:4")["restarts"] == 1, "the death was seen")
    eventually(lambda: three.process("kafka:cluster-1:4")["state"] == "running", "it runs again", 0.3)
    eventually(lambda: 4 in racks(three), "it serves again", 0.3)


@pytest.mark.nightly
def test_two_that_are_asked_for_at_once_come_one_after_the_other(three: RunningEstate) -> None:
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: add(three), range(2)))
    assert {answer["node"]: answer["zone"] for answer in answers} == {4: "az1", 5: "az2"}
    eventually(lambda: racks(three) == {**FILES_OWN, 4: "az1", 5: "az2"}, "every broker knows of it")
    removed = three.treeline("estate", "remove-broker", "cluster-1", "4")
    assert removed.returncode == 0, removed.stderr
    eventually(lambda: registered(three) == {1, 2, 3, 5}, "one of them stays")


@pytest.mark.nightly
def test_one_that_does_not_start_is_told_with_its_log_and_tried_again(three: RunningEstate) -> None:
    in_the_way = Home(three.home).log("kafka:cluster-1:4")
    in_the_way.unlink(missing_ok=True)  # of an earlier broker 4
    in_the_way.mkdir()
    told = three.treeline("estate", "add-broker", "cluster-1")
    in_the_way.rmdir()
    assert (told.returncode, told.stdout) == (1, "")
    assert "kafka:cluster-1:4 does not start" in told.stderr
    assert str(in_the_way) in told.stderr
    eventually(lambda: three.process("kafka:cluster-1:4")["state"] == "running", "it runs without help", 0.3)


@pytest.mark.nightly  # test_added_brokers has the layout of a killed command
def test_what_a_killed_command_has_left_is_removed(three: RunningEstate) -> None:
    """The command was killed before the broker began, or after the cluster had removed it."""
    layout = restore_layout(Home(three.home))
    (port,) = free_ports(1)
    ports = BrokerPorts(client=port, advertised=port, internal=port, controller=None)
    never = AddedBroker(cluster="cluster-1", node=4, zone="az1", ports=ports)
    save_added(layout.home, layout.estate, [never])
    save_layout(replace(layout, added=(never,)))
    removed = three.treeline("estate", "remove-broker", "cluster-1", "4")
    assert removed.returncode == 0, removed.stderr
    assert restore_layout(layout.home) == layout
    assert read_added(layout.home, layout.estate) == ()


@pytest.mark.nightly
def test_down_and_up_keep_an_added_broker_and_its_replicas(three: RunningEstate) -> None:
    added = add(three, "--zone", "az4")
    create_topic(three, "kept", [4])
    servers = three.bootstrap_servers("cluster-1")
    produce(servers, "kept", [{"value": b"only on 4"}], acks="all")
    assert three.treeline("down").returncode == 0

    again = boot(three.home, Path(three.home).parent / "estate.yaml")
    assert again.booted.returncode == 0, again.booted.stderr
    assert "nothing to change" in again.booted.stderr, "the control plane has the same addresses"
    eventually(lambda: racks(again) == {**FILES_OWN, 4: "az4"}, "every broker knows of it")
    (port,) = (node.port for node in nodes(again) if node.id == 4)
    assert added["bootstrap_servers"] == f"127.0.0.1:{port}"
    assert [message.value() for message in read_all(servers, "kept")] == [b"only on 4"]
    delete_topic(again, "kept")
    removed = again.treeline("estate", "remove-broker", "cluster-1", "4")
    assert removed.returncode == 0, removed.stderr
    eventually(lambda: registered(again) == set(FILES_OWN), "the metadata has forgotten it")


@some_now(
    "words, code, named",
    [
        (("add-broker", "cluster-9"), 2, "cluster-1"),
        (("add-broker", "cluster-1", "--zone", ""), 2, "zone"),
        (("remove-broker", "cluster-9", "4"), 2, "cluster-1"),
        (("remove-broker", "cluster-1", "2"), 2, "controller"),
        (("remove-broker", "cluster-1", "2", "--force"), 2, "controller"),
        (("remove-broker", "cluster-1", "7"), 2, "no broker 7"),
        (("remove-broker", "cluster-1", "four"), 2, "integer"),
    ],
    now=(0, 4),
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    three: RunningEstate, words: tuple[str, ...], code: int, named: str
) -> None:
    before = processes(three).keys()
    refused = three.treeline("estate", *words)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert named in refused.stderr
    assert processes(three).keys() == before
