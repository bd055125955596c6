"""Topics of one cluster: listing, creating, growing, configuring and deleting them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    admin,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence
from backend.kafka.base.probe import ClusterFacts, ConnectionReasons, describe
from backend.kafka.logs.listed_offsets import listed_offsets
from backend.kafka.logs.log_ends import ends_by

_CONFIGS_AT_ONCE = 500
_TOPICS_AT_ONCE = 100
"""Topics created by one request: brokers create its log folders before they answer."""
_AGAIN_SECONDS = 0.05
_NO_LEADER_YET = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._NOENT,  # librdkafka's word where it has found no leader
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
_OF_THE_TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
_NOT_ALLOWED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True)
class TopicFacts:
    """A topic as its cluster reports it; `topic_id` changes when it is deleted and created again."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    """Replicas of the partition that has the fewest, including those being copied."""
    in_sync: bool = True
    """True if all replicas of all partitions are in sync."""


@dataclass(frozen=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class TopicConfig:
    """Settings of one topic: effective `values`, defaults included, and its `own`, set on the topic itself."""

    values: Mapping[str, str]
    own: Mapping[str, str]


@dataclass(frozen=True)
class ClusterTopics:
    """Observation of one cluster; `refused` are topics that may not be described, with the cluster's reasons."""

    facts: ClusterFacts
    topics: Mapping[str, TopicFacts]
    refused: Mapping[str, str]


class TopicAdmin:
    """Administrative client of one cluster, kept open between polls. Raises KafkaCallFailed."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._reasons = ConnectionReasons()
        self._config = client_config(bootstrap_servers, properties, error_cb=self._reasons)
        self._admin = self._open()

    def _open(self) -> AdminClient:
        try:
            return AdminClient(dict(self._config))
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(f"the client refuses its configuration: {sentence(error)}") from error

    def observe(self, names: Iterable[str]) -> ClusterTopics:
        """Return the cluster's facts and those of the named topics that exist. Raises KafkaCallFailed."""
        try:
            facts = describe(self._admin, self._reasons, self._timeout)
        except (KafkaException, TimeoutError) as error:
            reason = self._reasons.last or sentence(error)
            self._reasons.forget()
            # librdkafka 2.16 may never reconnect once all brokers of its cluster were reported down.
            self._admin = self._open()
            raise KafkaCallFailed(reason) from error
        wanted = sorted(set(names))
        found, refused = self.describe(wanted)
        return ClusterTopics(facts, found, refused)

    def describe(self, names: Sequence[str]) -> tuple[dict[str, TopicFacts], dict[str, str]]:
        """Return the existing topics, and the reasons why others may not be described. Raises KafkaCallFailed."""
        found: dict[str, TopicFacts] = {}
        refused: dict[str, str] = {}
        if not names:
            return found, refused
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout)
        for name, future in futures.items():
            try:
                topic = self._wait(future, fine=KafkaError.UNKNOWN_TOPIC_OR_PART)
            except KafkaCallFailed as error:
                if error.code not in _NOT_ALLOWED:
                    raise
                # A missing right on one topic says nothing about the cluster.
                refused[name] = error.reason
                continue
            if topic is not None:
                replicas = min((len(p.replicas) for p in topic.partitions), default=0)
                in_sync = all(len(p.isr) == len(p.replicas) for p in topic.partitions)
                found[name] = TopicFacts(name, str(topic.topic_id), len(topic.partitions), replicas, in_sync)
        return found, refused

    def configs(self, names: Sequence[str]) -> tuple[dict[str, TopicConfig], dict[str, str]]:
        """Return the effective configuration of existing topics, and the reasons why others may not be read.

        Sends a request for each few hundred: an answer holds some thirty entries per topic. Raises
        KafkaCallFailed.
        """
        found: dict[str, TopicConfig] = {}
        refused: dict[str, str] = {}
        for first in range(0, len(names), _CONFIGS_AT_ONCE):
            asked = [ConfigResource(ResourceType.TOPIC, name) for name in names[first : first + _CONFIGS_AT_ONCE]]
            futures = self._admin.describe_configs(asked, request_timeout=self._timeout)
            for resource, future in futures.items():
                try:
                    entries = self._wait(future, fine=KafkaError.UNKNOWN_TOPIC_OR_PART)
                except KafkaCallFailed as error:
                    if error.code not in _NOT_ALLOWED:
                        raise
                    refused[resource.name] = error.reason
                    continue
                if entries is not None:
                    told = {key: entry for key, entry in entries.items() if entry.value is not None}
                    own = {key: entry.value for key, entry in told.items() if entry.source == _OF_THE_TOPIC}
                    found[resource.name] = TopicConfig({key: entry.value for key, entry in told.items()}, own)
        return found, refused

    def names(self) -> list[str]:
        """Return the names of all topics that this user may see. Raises KafkaCallFailed."""
        try:
            return sorted(self._admin.list_topics(timeout=self._timeout).topics)
        except KafkaException as error:
            raise KafkaCallFailed(sentence(error)) from error

    def records(self, topics: Iterable[TopicFacts]) -> dict[str, int]:
        """Return the offsets between the ends of the topics' logs, except topics whose ends cannot be read.

        Control records count, and gaps left by compaction. Two requests, whatever the number of topics.
        """
        places = {topic.name: [(topic.name, p) for p in range(topic.partitions)] for topic in topics}
        try:
            ends = ends_by(self._admin, chain.from_iterable(places.values()), self._timeout, undecided_too=True)
        except KafkaCallFailed:
            return {}
        return {
            topic: sum(ends[place][1] - ends[place][0] for place in those)
            for topic, those in places.items()
            if those and all(place in ends for place in those)
        }

    def end(self, topic: str, partition: int = 0) -> int:
        """Return the last stable offset of a partition. Raises KafkaCallFailed.

        A partition that was just created, or that is electing a leader, is waited for.
        """
        asked = {TopicPartition(topic, partition): OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + self._timeout
        reason = ""
        while True:
            left = max(deadline - time.monotonic(), _AGAIN_SECONDS)
            try:
                (end,) = listed_offsets(self._admin, [asked], left)[0].values()
            except KafkaException as error:
                end = error
            if isinstance(end, int):
                return end
            inner = kafka_error(end)
            code = inner.code() if inner else None
            # An earlier answer of the brokers says more than a timeout.
            if code in _NO_LEADER_YET or not reason:
                reason = sentence(end)
            if code not in _NO_LEADER_YET or time.monotonic() > deadline:
                raise KafkaCallFailed(f"the end of {topic}/{partition} cannot be read: {reason}", code) from end
            time.sleep(_AGAIN_SECONDS)

    def groups(self) -> list[tuple[str, str]]:
        """Return all groups that this user may see, with type: classic, consumer, or unknown (also share groups).

        Raises KafkaCallFailed.
        """
        found = self._wait(self._admin.list_consumer_groups(request_timeout=self._timeout))
        return [(group.group_id, group.type.name.lower()) for group in found.valid]

    def create(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create a topic; an existing one is no error. Raises KafkaCallFailed."""
        wanted = NewTopic(name=name, partitions=partitions, replication_factor=replication_factor, config=config)
        failed = self.create_many([wanted])
        if failed:
            raise failed[name]

    def create_many(self, topics: Sequence[NewTopic]) -> dict[str, KafkaCallFailed]:
        """Create topics, a request for each hundred; return the failures. Existing topics are no error."""
        failed: dict[str, KafkaCallFailed] = {}
        for first in range(0, len(topics), _TOPICS_AT_ONCE):
            some = [
                admin.NewTopic(each.name, each.partitions, each.replication_factor, config=dict(each.config))
                for each in topics[first : first + _TOPICS_AT_ONCE]
            ]
            for name, future in self._admin.create_topics(some, request_timeout=self._timeout).items():
                try:
                    self._wait(future, fine=KafkaError.TOPIC_ALREADY_EXISTS)
                except KafkaCallFailed as error:
                    failed[name] = error
        return failed

    def grow(self, name: str, partitions: int) -> None:
        """Raise the number of partitions. Raises KafkaCallFailed."""
        futures = self._admin.create_partitions([NewPartitions(name, partitions)], request_timeout=self._timeout)
        self._wait(futures[name])

    def configure(self, name: str, config: Mapping[str, str], reset: Iterable[str] = ()) -> None:
        """Set these entries of a topic's configuration and reset those of `reset` to the cluster's defaults.

        All other entries stay. Raises KafkaCallFailed.
        """
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in reset]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        futures = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout)
        self._wait(next(iter(futures.values())))

    def delete(self, name: str) -> None:
        """Delete a topic; a missing one is no error. Raises KafkaCallFailed."""
        futures = self._admin.delete_topics([name], request_timeout=self._timeout)
        self._wait(futures[name], fine=KafkaError.UNKNOWN_TOPIC_OR_PART)

    def holds_records(self, name: str) -> bool:
        """Return whether a topic holds records. Raises KafkaCallFailed, also if this cannot be determined."""
        found, refused = self.describe([name])
        if not found and not refused:
            return False
        count = self.records(found.values()).get(name)
        if count is None:
            raise KafkaCallFailed(f"the ends of {name} cannot be read: {refused.get(name, 'no answer')}")
        return count > 0

    def _wait(self, future: Future[Any], fine: int | None = None) -> Any:
        """Return a call's result; None if it failed with the code that means that it was not necessary."""
        try:
            return future.result(self._timeout + 1)
        except (KafkaException, TimeoutError) as error:
            inner = kafka_error(error)
            if inner is not None and inner.code() == fine:
                return None
            raise KafkaCallFailed(sentence(error), inner.code() if inner else None) from error


def count_records(
    bootstrap_servers: str, properties: Mapping[str, str], topic: str, timeout_seconds: float = 5.0
) -> int:
    """Return the offsets between the ends of a topic's logs: 0 only if it is empty or does not exist.

    Control records count, so that the answer errs on the side of "there is data". Raises KafkaException, also if
    the topic may not be seen.
    """
    consumer = Consumer(
        client_config(bootstrap_servers, properties, group_id="_treeline.look", enable_auto_commit=False)
    )
    try:
        metadata = consumer.list_topics(topic, timeout_seconds).topics.get(topic)
        if metadata is None or metadata.error is not None:
            error = None if metadata is None else metadata.error
            if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0
            raise KafkaException(error or KafkaError(KafkaError._UNKNOWN_TOPIC))
        total = 0
        for partition in metadata.partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout_seconds)
            total += high - low
        return total
    finally:
        consumer.close()
