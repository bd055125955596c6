"""The largest record that a schemas topic takes: looked up, noticed when it changes, told in time."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from backend.domain.distribution.edges import Endpoint
from backend.domain.schemas.schema_conflicts import TOO_LARGE, Conflict
from backend.kafka.admin.topics import TopicConfig, TopicFacts
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas import schemas_topic
from backend.kafka.schemas.schemas_topic import LARGEST_RECORD_BYTES, RecordTooLarge, SchemasTopic
from backend.queries.schemas.schemas import SchemaLeaf, WantedSchemas
from backend.registry.distribution import Difference
from backend.registry.mirror import Mirror
from workers.schemas import target as target_module
from workers.schemas.target import TargetThread

ENDPOINT = Endpoint(name="c1", number=1, bootstrap_servers="127.0.0.1:9", properties={})
FACTS = TopicFacts(name="_schemas", topic_id="t1", partitions=1, replication_factor=1)


class Cluster:
    """A cluster with the answers of the topic's admin client, and with its broker's limit."""

    def __init__(self) -> None:
        self.limit = 10_000
        self.asked = 0
        self.now = 1000.0
        self.batches: list[int] = []

    def configs(self, names: list[str]) -> tuple[dict[str, TopicConfig], dict[str, str]]:
        self.asked += 1
        settings = {"cleanup.policy": "compact", "max.message.bytes": str(self.limit)}
        return {names[0]: TopicConfig(settings, settings)}, {}

    def end(self, topic: str) -> int:
        return 0

    def producer(self, endpoint: Endpoint, batch_bytes: int) -> Cluster:
        self.batches.append(batch_bytes)
        return self

    def append(self, producer: Any, topic: str, records: Any, headers: Any) -> list[int]:
        if any(len(key) + len(value) > self.limit for key, value in records):
            raise KafkaCallFailed("Broker: Message size too large", KafkaError.MSG_SIZE_TOO_LARGE)
        return list(range(len(records)))

    def purge(self) -> None:
        """Nothing is held."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(schemas_topic, "_producer", cluster.producer)
    monkeypatch.setattr(schemas_topic, "_append", cluster.append)
    monkeypatch.setattr("time.monotonic", lambda: cluster.now)
    return cluster


@pytest.fixture
def topic(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> SchemasTopic:
    topic = SchemasTopic(ENDPOINT, "_schemas")
    topic._admin = cluster  # type: ignore[assignment]
    monkeypatch.setattr(topic, "_look", lambda: (FACTS, 1))
    return topic


def test_the_limit_is_known_before_anything_is_sent_and_looked_up_again_after_a_while(topic, cluster):
    topic.end()
    topic.end()
    assert (cluster.asked, topic.room < 10_000) == (1, True)
    cluster.limit = 20_000
    cluster.now += schemas_topic.LIMIT_SECONDS + 1
    topic.end()
    assert 10_000 < topic.room < 20_000


def test_no_topic_takes_more_than_is_ever_sent(topic, cluster):
    cluster.limit = 10 * LARGEST_RECORD_BYTES
    topic.end()
    assert topic.room < LARGEST_RECORD_BYTES


def test_a_record_that_a_broker_refuses_makes_the_limit_be_looked_up_and_batches_smaller(topic, cluster):
    topic.end()
    cluster.limit = 5_000
    with pytest.raises(RecordTooLarge):
        topic.append([(b"k", b"v" * 8_000)])
    topic.end()
    assert topic.room < 5_000
    assert topic.append([(b"k", b"v")]) == [0]
    assert cluster.batches == [10_000, 5_000]


def test_a_record_above_the_known_limit_is_sent_if_the_topic_takes_it_by_now(topic, cluster):
    topic.end()
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes"):
        topic.append([(b"k", b"v" * 15_000)])
    cluster.limit = 20_000
    assert topic.append([(b"k", b"v" * 15_000)]) == [0]


def test_a_target_that_takes_too_little_is_asked_again_although_nothing_has_changed(cluster, monkeypatch):
    large = Conflict(kind=TOO_LARGE, subject="s", version=1, schema_id=1, detail="it is too large")
    leaves = {name: SchemaLeaf(ENDPOINT, "{topic}") for name in ("c1", "c2")}
    wanted = WantedSchemas("c1", None, leaves, ())
    mirrors = {name: Mirror(ENDPOINT, "_schemas") for name in leaves}
    for mirror in mirrors.values():
        mirror.ready = True
    thread = TargetThread(None, mirrors, "c2", wanted, lambda: 1)  # type: ignore[arg-type]

    class Follower:
        """Finds what is too large until the limit is asked for."""

        seen = 1
        follows = 0
        found = Difference(records=(), conflicts=(large,), subjects=1)

        def look(self, wanted: WantedSchemas) -> Difference:
            return self.found

        def follow(self, primary: str) -> Difference:
            self.follows += 1
            if self.follows == 2:
                self.found = Difference(records=(), conflicts=(), subjects=1)
            return self.found

    follower = Follower()
    monkeypatch.setattr(thread, "_follower", follower)
    monkeypatch.setattr(thread, "_record", lambda conflicts: setattr(thread, "_recorded", frozenset(conflicts)))
    for _ in range(3):
        thread._follow()
    assert follower.follows == 1
    cluster.now += target_module.LIMIT_SECONDS + 1
    thread._follow()
    assert follower.follows == 2
    cluster.now += target_module.LIMIT_SECONDS + 1
    thread._follow()
    assert (follower.follows, thread.state.conflicts) == (2, ())
