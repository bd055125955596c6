"""Reading of replicas from a real cluster, and its errors for invalid requests."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from kafka.errors import RequestTimedOutError

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.protocol_client import _failed
from tests.eventually import eventually
from tests.kafka.placement.driving import fill, topic_name
from tests.support.kafka.three_brokers import NODES, RACKS, Brokers
from tests.support.kafka.topics import DEADLINE_SECONDS


def test_a_look_tells_racks_replicas_and_sizes(brokers: Brokers, admin: ReplicaAdmin) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2, 3], [3, 2, 1], [2, 1, 3]], min_insync_replicas="2")
    fill(brokers.servers, topic, 0, 1_000_000)
    fill(brokers.servers, topic, 1, 100_000)

    seen = admin.read()

    described = brokers.admin.describe_cluster().result(DEADLINE_SECONDS)
    assert seen.cluster_id == described.cluster_id
    assert {node: (each.rack, each.is_here) for node, each in seen.brokers.items()} == {
        node: (rack, True) for node, rack in zip(NODES, RACKS, strict=True)
    }
    found = [seen.partitions[topic, number] for number in range(3)]
    assert [each.replicas for each in found] == [(1, 2, 3), (3, 2, 1), (2, 1, 3)]
    assert [sorted(each.isr) for each in found] == [[1, 2, 3]] * 3
    assert [each.leader for each in found] == [1, 3, 2]
    assert 1_000_000 < found[0].size_bytes < 1_100_000
    assert 100_000 < found[1].size_bytes < 110_000
    assert found[2].size_bytes == 0
    assert (topic, 3) not in seen.partitions
    assert seen.min_insync_replicas[topic] == 2
    assert seen.unsized == {}
    (other,) = brokers.admin.describe_topics(TopicCollection([topic])).values()
    assert seen.topic_ids[topic] == str(other.result(DEADLINE_SECONDS).topic_id)


def test_internal_topics_are_seen_too(brokers: Brokers, admin: ReplicaAdmin) -> None:
    topic = topic_name()
    brokers.create(topic, [[1]])
    consumer = Consumer({"bootstrap.servers": brokers.servers, "group.id": topic, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    seen = admin.read()
    assert "__consumer_offsets" in seen.internal_topics and topic not in seen.internal_topics
    assert len(seen.partitions["__consumer_offsets", 0].replicas) == 3


@pytest.mark.nightly  # a broker that is away stays in test_replication
def test_of_a_broker_that_is_away_the_rack_is_known_and_the_sizes_are_the_others(
    brokers: Brokers, admin: ReplicaAdmin
) -> None:
    topic, lone = topic_name(), topic_name()
    brokers.create(topic, [[1, 2]])
    brokers.create(lone, [[2]])
    fill(brokers.servers, topic, 0, 100_000)
    admin.read()  # its connections are open when the broker goes
    brokers.kill(2)
    assert 2 not in eventually(lambda: _without(admin, topic, 2), "it is told to be gone")
    seen = admin.read()
    assert seen.brokers[2].rack == "az2"
    assert seen.partitions[topic, 0].size_bytes > 100_000
    assert (seen.partitions[lone, 0].leader, seen.partitions[lone, 0].size_bytes) == (-1, 0)
    assert list(seen.unsized) == [2] and "not there" in seen.unsized[2]


def _without(admin: ReplicaAdmin, topic: str, node: int) -> tuple[int, ...] | None:
    seen = admin.read()
    return None if seen.brokers[node].is_here else seen.partitions[topic, 0].isr


def test_requests_that_make_no_sense_are_refused_one_by_one(brokers: Brokers, admin: ReplicaAdmin) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2]] * 6)
    refused = admin.alter(
        {
            (topic, 0): [1, 3],
            (topic, 1): [1, 99],
            (topic, 2): [1, 1],
            (topic, 3): [],
            (topic, 4): None,
            (topic, 6): [1, 2],
            ("no-such-topic", 0): [1],
            ("no-such-topic", 1): None,
        }
    )
    said = {place: reason.split(" (")[0] for place, reason in refused.items()}
    assert said == {
        (topic, 1): "it cannot have its replicas there",
        (topic, 2): "it cannot have its replicas there",
        (topic, 3): "it cannot have its replicas there",
        (topic, 4): "it is not being reassigned, so there is nothing to cancel",
        (topic, 6): "there is no such partition; its topic is gone, or never had it",
        ("no-such-topic", 0): "there is no such partition; its topic is gone, or never had it",
        ("no-such-topic", 1): "there is no such partition; its topic is gone, or never had it",
    }
    assert "99" in refused[topic, 1]
    assert eventually(
        lambda: admin.read().partitions[topic, 0].replicas == (1, 3), "the one that makes sense is done"
    )


def test_the_preferred_broker_is_elected_and_once_more_is_no_refusal(
    brokers: Brokers, admin: ReplicaAdmin
) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2], [2, 3]])
    assert admin.alter({(topic, 0): [2, 1]}) == {}
    eventually(lambda: admin.read().partitions[topic, 0].replicas == (2, 1), "another order")
    assert admin.read().partitions[topic, 0].leader == 1
    wanted = [(topic, 0), (topic, 1), ("no-such-topic", 0)]
    for _ in range(2):
        refused = admin.elect_preferred(wanted)
        assert list(refused) == [("no-such-topic", 0)]
        assert refused["no-such-topic", 0].startswith("there is no such partition")
        assert eventually(lambda: admin.read().partitions[topic, 0].leader == 2, "it leads")


@pytest.mark.nightly  # a cluster that is silent: test_rest_replication
def test_where_nobody_answers_the_cluster_is_named() -> None:
    with ReplicaAdmin("east", "127.0.0.1:9", {}, timeout_seconds=0.5) as admin:
        for call in (admin.read, admin.ongoing, lambda: admin.alter({("t", 0): [1]})):
            with pytest.raises(KafkaCallFailed, match=r"east: .*127\.0\.0\.1:9"):
                call()


def test_a_login_that_is_not_known_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(KafkaCallFailed, match="east: the control plane logs in by OAUTHBEARER"):
        ReplicaAdmin("east", "127.0.0.1:9", {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"})


def test_a_bootstrap_server_that_hangs_leaves_time_for_the_others(brokers: Brokers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # Like a stopped process: the kernel accepts connections, and nobody reads.
        servers = f"127.0.0.1:{silent.getsockname()[1]},{brokers.servers.partition(',')[0]}"
        for _ in range(4):  # whichever it happens to ask first
            with ReplicaAdmin("east", servers, {}, timeout_seconds=3) as admin:
                assert len(admin.read(whole=False).brokers) == 3


def test_a_broker_that_does_not_answer_in_time_refuses_nothing_and_another_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([_failed(RequestTimedOutError("after 1665 ms")), "an answer"])

    def send(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with ReplicaAdmin("east", "127.0.0.1:9", {}, timeout_seconds=5) as admin:
        monkeypatch.setattr(admin._client, "send", send)
        assert admin._send(None) == "an answer"
