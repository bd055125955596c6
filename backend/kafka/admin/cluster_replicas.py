"""Where all replicas of one cluster are: brokers and racks, partitions with their leaders and sizes, in few
requests.

A cluster of 300,000 partitions takes one request for its topics (an answer of 13 MB), one to each broker for
sizes, and one for each few hundred topics for their configuration. The answers are of different moments: a topic
may be gone, and a broker down, between two of them. What is not known then is left out.
"""

from __future__ import annotations

import base64
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest
from kafka.protocol.metadata import MetadataRequest

from backend.domain.replication.replication_health import BrokerSeen
from backend.kafka.admin.configs import topic_configs
from backend.kafka.base.asking import UNSUPPORTED, Ask, AskEach, Place, explained
from backend.kafka.base.errors import KafkaCallFailed

_MIN_INSYNC = "min.insync.replicas"
_AWAY = "it is not there"


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """A partition as the cluster has it, while it is reassigned with the brokers that it comes from and goes
    to."""

    replicas: tuple[int, ...]
    """Broker ids, the preferred one first."""
    isr: tuple[int, ...]
    leader: int
    """-1 if there is none."""
    size_bytes: int
    """Of its largest replica; 0 if no broker that has one answered."""


@dataclass(frozen=True, kw_only=True)
class ClusterReplicas:
    """What one look at a cluster found, internal topics with it."""

    cluster_id: str
    """Kafka's own."""
    brokers: Mapping[int, BrokerSeen]
    partitions: Mapping[Place, PartitionSeen]
    topic_ids: Mapping[str, str]
    """They change when a topic is deleted and created again."""
    internal_topics: frozenset[str]
    min_insync_replicas: Mapping[str, int]
    """By topic; without those whose configuration may not be seen."""
    unsized: Mapping[int, str]
    """Brokers that did not tell the sizes of their replicas, and why."""


def read(metadata: Any, ask: Ask, ask_each: AskEach, *, whole: bool) -> ClusterReplicas:
    """All brokers and replicas, topics and their partitions by the answer to `everything`; `whole`: with sizes and
    minima, which take a request to each broker and one for each few hundred topics. Raises KafkaCallFailed if
    nobody answers; what single brokers do not say is left out."""
    topics = [topic for topic in metadata.topics if not topic.error_code or topic.partitions]
    brokers = brokers_of(ask, metadata)
    sizes, unsized = _sizes(ask_each, brokers) if whole else ({}, {})
    partitions = {
        (topic.name, each.partition_index): PartitionSeen(
            replicas=tuple(each.replica_nodes),
            isr=tuple(each.isr_nodes),
            leader=each.leader_id,
            size_bytes=sizes.get((topic.name, each.partition_index), 0),
        )
        for topic in topics
        for each in topic.partitions
    }
    return ClusterReplicas(
        cluster_id=str(metadata.cluster_id),
        brokers=brokers,
        partitions=partitions,
        topic_ids={topic.name: _as_librdkafka_writes_it(topic.topic_id) for topic in topics},
        internal_topics=frozenset(topic.name for topic in topics if topic.is_internal),
        min_insync_replicas=_min_insync(ask, [topic.name for topic in topics]) if whole else {},
        unsized=unsized,
    )


def everything() -> MetadataRequest:
    """Asks for all topics."""
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def copied(ask_each: AskEach, adding: Mapping[Place, Sequence[int]]) -> dict[Place, int]:
    """Bytes that these brokers have of these partitions by now, of several brokers together; without brokers that
    do not answer, and replicas that they have not begun."""
    asked: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), brokers in adding.items():
        for broker in brokers:
            asked[broker][topic].append(partition)
    requests = {broker: DescribeLogDirsRequest(topics=list(topics.items())) for broker, topics in asked.items()}
    found: dict[Place, int] = defaultdict(int)
    for answer in ask_each(requests).values():
        for place, size in () if isinstance(answer, KafkaCallFailed) else _held(answer):
            found[place] += size
    return dict(found)


def brokers_of(ask: Ask, metadata: Any) -> dict[int, BrokerSeen]:
    """Those that an answer to `everything` tells of, and those that the cluster knows and that are not there.
    Raises KafkaCallFailed."""
    found = {broker.node_id: BrokerSeen(broker.rack, is_here=True) for broker in metadata.brokers}
    try:
        answer = ask(DescribeClusterRequest(include_fenced_brokers=True))
    except KafkaCallFailed as error:
        if error.code != UNSUPPORTED:
            raise
        return found  # before Kafka 2.8 nobody tells of brokers that are not there
    for broker in answer.brokers if answer.error_code == 0 else ():
        found.setdefault(broker.broker_id, BrokerSeen(broker.rack, is_here=not broker.is_fenced))
    return found


def _sizes(ask_each: AskEach, brokers: Mapping[int, BrokerSeen]) -> tuple[dict[Place, int], dict[int, str]]:
    unsized = {broker: _AWAY for broker, seen in brokers.items() if not seen.is_here}
    answers = ask_each(
        {broker: DescribeLogDirsRequest(topics=None) for broker in brokers if broker not in unsized}
    )
    sizes: dict[Place, int] = {}
    for broker, answer in answers.items():
        if isinstance(answer, KafkaCallFailed):
            unsized[broker] = answer.reason
            continue
        # Of several disks the others are told of.
        for each in (answer, *answer.results):
            if each.error_code:
                unsized[broker] = explained(each)
        for place, size in _held(answer):
            if size > sizes.get(place, 0):
                sizes[place] = size
    return sizes, unsized


def _held(answer: Any) -> Iterator[tuple[Place, int]]:
    """Replicas of a broker with their bytes; not those that it is moving from one of its disks to another."""
    for folder in answer.results:
        for topic in folder.topics:
            for each in topic.partitions:
                if not each.is_future_key:
                    yield (topic.name, each.partition_index), each.partition_size


def _min_insync(ask: Ask, topics: Sequence[str]) -> dict[str, int]:
    found = topic_configs(ask, topics, [_MIN_INSYNC])
    return {topic: int(entry.value) for topic, entries in found.items() for entry in entries if entry.value}


def _as_librdkafka_writes_it(topic_id: uuid.UUID) -> str:
    """As all other topic ids here are known; Kafka itself writes - and _ for its + and /."""
    return base64.b64encode(topic_id.bytes).rstrip(b"=").decode()
