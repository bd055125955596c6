"""Topics of one cluster: what is there, and creating, growing and deleting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from backend.kafka.client_config import client_config
from backend.kafka.errors import kafka_error, sentence
from backend.kafka.probe import ClusterFacts, ConnectionReasons, describe


@dataclass(frozen=True)
class TopicFacts:
    """A topic as the cluster has it; `topic_id` changes when it is deleted and created again."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True)
class ClusterTopics:
    """What one look at a cluster found."""

    facts: ClusterFacts
    topics: Mapping[str, TopicFacts]


class TopicAdmin:
    """Administrative client of one cluster, kept open between looks."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._reasons = ConnectionReasons()
        self._admin = AdminClient(client_config(bootstrap_servers, properties, error_cb=self._reasons))

    def observe(self, names: Iterable[str]) -> ClusterTopics:
        """The cluster and those of the named topics that exist. Raises KafkaException or TimeoutError."""
        facts = describe(self._admin, self._reasons, self._timeout)
        wanted = sorted(set(names))
        found: dict[str, TopicFacts] = {}
        if wanted:
            futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout)
            for name, future in futures.items():
                try:
                    topic = future.result(self._timeout + 1)
                except KafkaException as error:
                    if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                    continue
                replicas = min((len(p.replicas) for p in topic.partitions), default=0)
                found[name] = TopicFacts(name, str(topic.topic_id), len(topic.partitions), replicas)
        return ClusterTopics(facts, found)

    def reason(self, error: BaseException) -> str:
        """Why a look failed: the connection's own reason where there is one."""
        reason = self._reasons.last or sentence(error)
        self._reasons.forget()
        return reason

    def create(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create a topic; one that exists already is fine. Raises KafkaException."""
        topic = NewTopic(name, partitions, replication_factor, config=dict(config))
        future = self._admin.create_topics([topic], request_timeout=self._timeout)[name]
        try:
            future.result(self._timeout + 1)
        except KafkaException as error:
            if _code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def grow(self, name: str, partitions: int) -> None:
        """Raise the number of partitions. Raises KafkaException."""
        futures = self._admin.create_partitions([NewPartitions(name, partitions)], request_timeout=self._timeout)
        futures[name].result(self._timeout + 1)

    def delete(self, name: str) -> None:
        """Delete a topic; one that is gone already is fine. Raises KafkaException."""
        future = self._admin.delete_topics([name], request_timeout=self._timeout)[name]
        try:
            future.result(self._timeout + 1)
        except KafkaException as error:
            if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


def count_records(
    bootstrap_servers: str, properties: Mapping[str, str], topic: str, timeout_seconds: float = 5.0
) -> int:
    """Offsets between the ends of a topic's logs: 0 only if it holds nothing; 0 too if it does not exist.

    Control records count, so that the answer errs on the side of "there is data". Raises KafkaException.
    """
    consumer = Consumer(
        client_config(bootstrap_servers, properties, group_id="_treeline.look", enable_auto_commit=False)
    )
    try:
        metadata = consumer.list_topics(topic, timeout_seconds).topics.get(topic)
        if metadata is None or metadata.error is not None:
            return 0
        total = 0
        for partition in metadata.partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout_seconds)
            total += high - low
        return total
    finally:
        consumer.close()


def _code(error: KafkaException) -> int | None:
    inner = kafka_error(error)
    return None if inner is None else int(inner.code())
